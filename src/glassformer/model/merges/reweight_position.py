"""Heads scaled by the norm of their vector at each position: the honest form of re-weighting."""

from __future__ import annotations

from typing import final

import torch
from torch import Tensor

from glassformer.model.dims import Dims
from glassformer.model.slots import MERGES, Merge, MergeConfig


@MERGES.variant("reweight_position")
@final
class ReweightPositionConfig(MergeConfig):
    """Each head times the norm of its own vector at each position: re-weighting without a leak."""

    def build(self, dims: Dims) -> ReweightPosition:
        return ReweightPosition()


@final
class ReweightPosition(Merge):
    def forward(self, z_BHTE: Tensor) -> Tensor:
        norm_BHT1 = torch.linalg.vector_norm(z_BHTE, dim=-1, keepdim=True)
        return (z_BHTE * norm_BHT1).transpose(1, 2).flatten(-2)
