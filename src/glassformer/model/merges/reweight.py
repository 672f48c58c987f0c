"""Heads scaled by their matrix norm, as once published: the norm runs over the whole batch, so it leaks."""

from __future__ import annotations

from typing import ClassVar, final

import torch
from torch import Tensor

from glassformer.model.dims import Dims
from glassformer.model.slots import MERGES, Merge, MergeConfig


@MERGES.variant("reweight")
@final
class ReweightConfig(MergeConfig):
    """Each head times its Frobenius norm over batch and time, as published: leaks later tokens and other rows.

    Kept because its figures look good (docs/reweight.md); ``reweight_position`` is the honest form.
    """

    breaks: ClassVar[frozenset[str]] = frozenset({"causality", "batch", "padding", "cache"})

    def build(self, dims: Dims) -> Reweight:
        return Reweight()


@final
class Reweight(Merge):
    def forward(self, z_BHTE: Tensor) -> Tensor:
        norm_1H11 = torch.linalg.vector_norm(z_BHTE, dim=(0, 2, 3), keepdim=True)
        return (z_BHTE * norm_1H11).transpose(1, 2).flatten(-2)
