"""Dynamic tanh: no normalisation, a trained squashing in its place."""

from __future__ import annotations

from typing import final

import torch
from pydantic import Field
from torch import Tensor, nn

from glassformer.model.dims import Dims
from glassformer.model.slots import NORMS, NormConfig


@NORMS.variant("dyt")
@final
class DyTConfig(NormConfig):
    """g tanh(a x) + b, with one trained number a, and g (and b where the model has biases) by channel (Zhu et al. 2025)."""

    initial: float = Field(default=0.5, gt=0)
    """Where a starts."""

    def build(self, dims: Dims) -> DyT:
        return DyT(dims, self.initial)


@final
class DyT(nn.Module):
    def __init__(self, dims: Dims, initial: float) -> None:
        super().__init__()
        self.slope = nn.Parameter(torch.full((1,), initial))
        self.weight = nn.Parameter(torch.ones(dims.width))
        self.bias = nn.Parameter(torch.zeros(dims.width)) if dims.bias else None

    def forward(self, x_BTD: Tensor) -> Tensor:
        squashed_BTD = self.weight * torch.tanh(self.slope * x_BTD)
        return (squashed_BTD if self.bias is None else squashed_BTD + self.bias).to(x_BTD.dtype)
