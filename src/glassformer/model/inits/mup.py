"""Maximal update parametrisation: start and learning rates by width, so that one rate fits all widths."""

from __future__ import annotations

import math
from typing import final

from pydantic import Field
from torch import nn

from glassformer.model.dims import Dims
from glassformer.model.initialisation import InitialWeights
from glassformer.model.slots import INITS, InitConfig


@INITS.variant("mup")
@final
class MuPConfig(InitConfig):
    """Hidden matrices start at std / sqrt(m) and learn at the rate / m, with m = width / base_width (muP, Yang et al. 2022).

    Embeddings and vectors start and learn as they are. At ``base_width`` this is ``normal``. For Adam and its kin; the paper
    also divides the scores of attention by the head's width instead of its root (``model.mixer.scale``) and the logits by m
    (a tied head has no rate of its own; ``model.head=untied`` learns and starts like a hidden matrix).
    """

    base_width: int = Field(default=128, ge=1)
    """The width at which ``training.lr`` was chosen."""
    std: float = Field(default=0.02, gt=0)

    def std_of(self, weights: InitialWeights, dims: Dims) -> float:
        hidden = self.std / math.sqrt(dims.width / self.base_width)
        if weights.role == "residual":
            return hidden / math.sqrt(2 * max(1, dims.layers))
        return self.std if weights.role == "embedding" else hidden

    def lr_factor(self, name: str, parameter: nn.Parameter, dims: Dims) -> float:
        hidden = parameter.ndim >= 2 and not name.startswith(("embedding.", "positions.", "segments."))
        return self.base_width / dims.width if hidden else 1.0
