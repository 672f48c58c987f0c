"""The block with half a feed-forward before attention and half of another after it."""

from __future__ import annotations

from typing import ClassVar, final

from torch import Tensor

from glassformer.model.attention_context import AttentionContext
from glassformer.model.dims import Dims
from glassformer.model.dropout import Dropout
from glassformer.model.kv_cache import LayerCache
from glassformer.model.slots import BLOCKS, Block, BlockConfig, LayerParts, Positions, feed
from glassformer.model.tap import STREAM, Tap


@BLOCKS.variant("macaron")
@final
class MacaronConfig(BlockConfig):
    """x + f(n(x)) / 2, then attention, then another x + g(n(x)) / 2 (Lu et al. 2019): two feed-forwards a block."""

    norms: ClassVar[int] = 3
    feedforwards: ClassVar[int] = 2
    norm_at_end: ClassVar[bool] = True

    def build(self, dims: Dims, make: LayerParts) -> MacaronBlock:
        return MacaronBlock(dims, make)


@final
class MacaronBlock(Block):
    def __init__(self, dims: Dims, make: LayerParts) -> None:
        super().__init__()
        self.before, self.middle, self.after = Tap(STREAM), Tap(STREAM), Tap(STREAM)
        self.first_norm, self.first = make.norm(), make.feedforward()
        self.attention_norm, self.attention = make.norm(), make.attention()
        self.feedforward_norm, self.feedforward = make.norm(), make.feedforward()
        self.dropout = Dropout(dims.dropout)

    def forward(
        self, x_BTD: Tensor, attention_context: AttentionContext, positions: Positions, cache: LayerCache | None
    ) -> Tensor:
        x_BTD, masks = self.before(x_BTD), attention_context.dropout_masks
        x_BTD = x_BTD + 0.5 * self.dropout(feed(self.first, self.first_norm(x_BTD), attention_context, cache), masks)
        mixed_BTD = self.attention(self.attention_norm(x_BTD), attention_context, positions, cache)
        x_BTD = self.middle(x_BTD + self.dropout(mixed_BTD, masks))
        changed_BTD = feed(self.feedforward, self.feedforward_norm(x_BTD), attention_context, cache)
        return self.after(x_BTD + 0.5 * self.dropout(changed_BTD, masks))
