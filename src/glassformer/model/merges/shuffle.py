"""Heads put together in a random order."""

from __future__ import annotations

from typing import Any, ClassVar, final

import torch
from torch import Tensor

from glassformer.foundation.seeds import derive_seed
from glassformer.model.dims import Dims
from glassformer.model.slots import MERGES, Merge, MergeConfig, needs_two_heads


@MERGES.variant("shuffle")
@final
class ShuffleConfig(MergeConfig):
    """The heads side by side in a random order, fixed per layer or drawn anew at each step (an ablation of order).

    A fixed order only renames the rows of the output projection. Drawn anew, it is identity in evaluation, and the order
    comes from torch's generator, which the trainer seeds from (seed, step): so from (seed, step, layer).
    """

    examples: ClassVar[tuple[dict[str, Any], ...]] = ({}, {"redrawn": True}, {"seed": 5})

    redrawn: bool = False
    """Draw a new order at every training step; in evaluation the heads stay in order."""
    seed: int = 0
    """What the fixed orders come from."""

    def incompatibility(self, dims: Dims) -> str | None:
        return needs_two_heads(self, dims)

    def build(self, dims: Dims) -> Merge:
        if self.redrawn:
            return RedrawnShuffle()
        generator = torch.Generator().manual_seed(derive_seed(self.seed, "shuffle", dims.layer))
        return FixedShuffle(torch.randperm(dims.heads, generator=generator))


@final
class FixedShuffle(Merge):
    order_H: Tensor

    def __init__(self, order_H: Tensor) -> None:
        super().__init__()
        self.register_buffer("order_H", order_H, persistent=False)

    def forward(self, z_BHTE: Tensor) -> Tensor:
        return z_BHTE[:, self.order_H].transpose(1, 2).flatten(-2)


@final
class RedrawnShuffle(Merge):
    def forward(self, z_BHTE: Tensor) -> Tensor:
        if self.training:
            z_BHTE = z_BHTE[:, torch.randperm(z_BHTE.shape[1], device=z_BHTE.device)]
        return z_BHTE.transpose(1, 2).flatten(-2)
