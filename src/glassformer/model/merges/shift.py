"""Heads put together in a circle, begun one head later."""

from __future__ import annotations

from typing import final

from torch import Tensor

from glassformer.model.dims import Dims
from glassformer.model.slots import MERGES, Merge, MergeConfig, needs_two_heads


@MERGES.variant("shift")
@final
class ShiftConfig(MergeConfig):
    """The second head first and the first last: [O2 O3 ... Oh O1] (an ablation of order)."""

    def incompatibility(self, dims: Dims) -> str | None:
        return needs_two_heads(self, dims)

    def build(self, dims: Dims) -> Shift:
        return Shift()


@final
class Shift(Merge):
    def forward(self, z_BHTE: Tensor) -> Tensor:
        return z_BHTE.roll(-1, dims=1).transpose(1, 2).flatten(-2)
