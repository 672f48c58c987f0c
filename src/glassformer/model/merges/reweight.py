"""Heads scaled by a norm of their outputs: over the batch as once published, over a text, or at each position.

Only the last is honest: a norm over a text sees its later tokens, one over the batch other rows, too (docs/reweight.md).
"""

from __future__ import annotations

from typing import ClassVar, final

import torch
from torch import Tensor

from glassformer.model.dims import Dims
from glassformer.model.slots import MERGES, Merge, MergeConfig


class ReweightSettings(MergeConfig):
    axes: ClassVar[tuple[int, ...]]
    """Of [B, H, T, E], those that the norm is taken over."""

    def build(self, dims: Dims) -> Reweight:
        return Reweight(self.axes)


@MERGES.variant("reweight")
@final
class ReweightConfig(ReweightSettings):
    """Each head times its Frobenius norm over batch and time, as published: leaks later tokens and other rows.

    Kept because its figures look good (docs/reweight.md); ``reweight_position`` is the honest form.
    """

    axes: ClassVar[tuple[int, ...]] = (0, 2, 3)
    breaks: ClassVar[frozenset[str]] = frozenset({"causality", "batch", "padding", "cache"})


@MERGES.variant("reweight_sequence")
@final
class ReweightSequenceConfig(ReweightSettings):
    """Each head times its Frobenius norm over its own text: leaks later tokens, but not other rows."""

    axes: ClassVar[tuple[int, ...]] = (2, 3)
    breaks: ClassVar[frozenset[str]] = frozenset({"causality", "padding", "cache"})


@MERGES.variant("reweight_position")
@final
class ReweightPositionConfig(ReweightSettings):
    """Each head times the norm of its own vector at each position: re-weighting without a leak."""

    axes: ClassVar[tuple[int, ...]] = (-1,)


@final
class Reweight(Merge):
    def __init__(self, axes: tuple[int, ...]) -> None:
        super().__init__()
        self.axes = axes

    def forward(self, z_BHTE: Tensor) -> Tensor:
        norm = torch.linalg.vector_norm(z_BHTE, dim=self.axes, keepdim=True)
        return (z_BHTE * norm).transpose(1, 2).flatten(-2)
