"""Concatenation of the heads, in order."""

from __future__ import annotations

from typing import final

from torch import Tensor

from glassformer.model.dims import Dims
from glassformer.model.slots import MERGES, Merge, MergeConfig


@MERGES.variant("concat")
@final
class ConcatConfig(MergeConfig):
    """The heads side by side, in order (Vaswani et al. 2017)."""

    def build(self, dims: Dims) -> Concat:
        return Concat()


@final
class Concat(Merge):
    def forward(self, z_BHTE: Tensor) -> Tensor:
        return z_BHTE.transpose(1, 2).flatten(-2)
