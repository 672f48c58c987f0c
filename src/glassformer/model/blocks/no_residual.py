"""The block without residual sums: each part's output replaces what came in."""

from __future__ import annotations

from typing import ClassVar, final

from torch import Tensor

from glassformer.model.attention_context import AttentionContext
from glassformer.model.dims import Dims
from glassformer.model.dropout import Dropout
from glassformer.model.kv_cache import LayerCache
from glassformer.model.slots import BLOCKS, Block, BlockConfig, LayerParts, Positions, feed
from glassformer.model.tap import STREAM, Tap


@BLOCKS.variant("no_residual")
@final
class NoResidualConfig(BlockConfig):
    """part(norm(x)): the block ``pre`` without its residual sums (an ablation)."""

    norms: ClassVar[int] = 2
    norm_at_end: ClassVar[bool] = True
    steps_to_learn: ClassVar[int] = 60  # gradients reach the embedding only through every part

    def build(self, dims: Dims, make: LayerParts) -> NoResidualBlock:
        return NoResidualBlock(dims, make)


@final
class NoResidualBlock(Block):
    def __init__(self, dims: Dims, make: LayerParts) -> None:
        super().__init__()
        self.before, self.middle, self.after = Tap(STREAM), Tap(STREAM), Tap(STREAM)
        self.attention_norm, self.attention = make.norm(), make.attention()
        self.feedforward_norm, self.feedforward = make.norm(), make.feedforward()
        self.dropout = Dropout(dims.dropout)

    def forward(
        self, x_BTD: Tensor, attention_context: AttentionContext, positions: Positions, cache: LayerCache | None
    ) -> Tensor:
        x_BTD = self.before(x_BTD)
        mixed_BTD = self.attention(self.attention_norm(x_BTD), attention_context, positions, cache)
        x_BTD = self.middle(self.dropout(mixed_BTD, attention_context.dropout_masks))
        changed_BTD = feed(self.feedforward, self.feedforward_norm(x_BTD), attention_context, cache)
        return self.after(self.dropout(changed_BTD, attention_context.dropout_masks))
