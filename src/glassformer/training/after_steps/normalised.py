"""Weights whose vectors in the stream have length one after every step."""

from __future__ import annotations

from collections.abc import Mapping
from typing import final

import torch
from torch import nn

from glassformer.model.initialisation import initial_weights
from glassformer.training.slots import AFTER_STEPS, AfterStep, AfterStepConfig


@AFTER_STEPS.variant("normalised")
@final
class NormalisedConfig(AfterStepConfig):
    """w / ||w|| for every vector of the stream in embeddings and matrices, after every step (nGPT, Loshchilov et al. 2024).

    Rows of what reads the stream, columns of what writes into it (``start(..., writes_residual=True)``). Scales, biases and
    what a part draws by ``init_weights`` stay as they are. The paper adds ``model.block: sphere`` and ``model.mixer.qk: l2``,
    and drops weight decay and warm-up.
    """

    def build(self, model: nn.Module, parameters: Mapping[str, nn.Parameter]) -> Normalised:
        return Normalised(model)


@final
class Normalised(AfterStep):
    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.axes: list[tuple[nn.Parameter, int]] = []
        """Each weight, and the axis along which its vectors of the stream lie."""
        for one in initial_weights(model):
            weight = getattr(one.module, "weight", None)
            if one.role != "own" and isinstance(weight, nn.Parameter) and weight.requires_grad and weight.ndim >= 2:
                self.axes.append((weight, -2 if one.role == "residual" else -1))

    @torch.no_grad()
    def __call__(self) -> None:
        for weight, axis in self.axes:
            weight.div_(weight.norm(dim=axis, keepdim=True).clamp(min=1e-12))
