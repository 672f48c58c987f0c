"""The block whose parts read the same vector and are added together."""

from __future__ import annotations

from typing import Any, ClassVar, Literal, final

from torch import Tensor

from glassformer.model.attention_context import AttentionContext
from glassformer.model.dims import Dims
from glassformer.model.dropout import Dropout
from glassformer.model.kv_cache import LayerCache
from glassformer.model.slots import BLOCKS, Block, BlockConfig, LayerParts, Positions, feed
from glassformer.model.tap import STREAM, Tap


@BLOCKS.variant("parallel")
@final
class ParallelConfig(BlockConfig):
    """x + attention(norm(x)) + feedforward(norm(x)): both at once (GPT-J 2021, PaLM 2022; with two norms GPT-NeoX)."""

    norm_at_end: ClassVar[bool] = True
    examples: ClassVar[tuple[dict[str, Any], ...]] = ({}, {"own_norms": 2})

    own_norms: Literal[1, 2] = 1
    """1: both parts read the same norm; 2: each has its own."""

    @property
    def num_norms(self) -> int:
        return self.own_norms

    def build(self, dims: Dims, make: LayerParts) -> ParallelBlock:
        return ParallelBlock(dims, make, own_norms=self.own_norms)


@final
class ParallelBlock(Block):
    def __init__(self, dims: Dims, make: LayerParts, *, own_norms: int) -> None:
        super().__init__()
        self.before, self.after = Tap(STREAM), Tap(STREAM)
        self.attention_norm, self.attention = make.norm(), make.attention()
        self.feedforward_norm = make.norm() if own_norms == 2 else None
        self.feedforward = make.feedforward()
        self.dropout = Dropout(dims.dropout)

    def forward(
        self, x_BTD: Tensor, attention_context: AttentionContext, positions: Positions, cache: LayerCache | None
    ) -> Tensor:
        x_BTD, masks = self.before(x_BTD), attention_context.dropout_masks
        normed_BTD = self.attention_norm(x_BTD)
        mixed_BTD = self.attention(normed_BTD, attention_context, positions, cache)
        read_BTD = normed_BTD if self.feedforward_norm is None else self.feedforward_norm(x_BTD)
        changed_BTD = feed(self.feedforward, read_BTD, attention_context, cache)
        return self.after(x_BTD + self.dropout(mixed_BTD, masks) + self.dropout(changed_BTD, masks))
