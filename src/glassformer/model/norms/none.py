"""No normalisation: the ablation."""

from __future__ import annotations

from typing import final

from torch import nn

from glassformer.model.dims import Dims
from glassformer.model.slots import NORMS, NormConfig


@NORMS.variant("none")
@final
class NoneConfig(NormConfig):
    """The vectors as they are: the ablation that removes normalisation."""

    def build(self, dims: Dims) -> nn.Module:
        return nn.Identity()
