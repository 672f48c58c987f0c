"""Heads scaled by their matrix norm over one text: no other row is seen, but the future is."""

from __future__ import annotations

from typing import ClassVar, final

import torch
from torch import Tensor

from glassformer.model.dims import Dims
from glassformer.model.slots import MERGES, Merge, MergeConfig


@MERGES.variant("reweight_sequence")
@final
class ReweightSequenceConfig(MergeConfig):
    """Each head times its Frobenius norm over its own text: leaks later tokens, but not other rows."""

    breaks: ClassVar[frozenset[str]] = frozenset({"causality", "padding", "cache"})

    def build(self, dims: Dims) -> ReweightSequence:
        return ReweightSequence()


@final
class ReweightSequence(Merge):
    def forward(self, z_BHTE: Tensor) -> Tensor:
        norm_BH11 = torch.linalg.vector_norm(z_BHTE, dim=(2, 3), keepdim=True)
        return (z_BHTE * norm_BH11).transpose(1, 2).flatten(-2)
