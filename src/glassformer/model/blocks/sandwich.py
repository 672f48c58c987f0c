"""The block with a norm before and after each part."""

from __future__ import annotations

from typing import ClassVar, final

from torch import Tensor

from glassformer.model.attention_context import AttentionContext
from glassformer.model.dims import Dims
from glassformer.model.dropout import Dropout
from glassformer.model.kv_cache import LayerCache
from glassformer.model.slots import BLOCKS, Block, BlockConfig, LayerParts, Positions, feed
from glassformer.model.tap import STREAM, Tap


@BLOCKS.variant("sandwich")
@final
class SandwichConfig(BlockConfig):
    """x + norm(part(norm(x))): a norm before and one after each part (Ding et al. 2021; Gemma 2; Peri-LN, Kim et al. 2025)."""

    norms: ClassVar[int] = 4
    norm_at_end: ClassVar[bool] = True

    def build(self, dims: Dims, make: LayerParts) -> SandwichBlock:
        return SandwichBlock(dims, make)


@final
class SandwichBlock(Block):
    def __init__(self, dims: Dims, make: LayerParts) -> None:
        super().__init__()
        self.before, self.middle, self.after = Tap(STREAM), Tap(STREAM), Tap(STREAM)
        self.attention_norm, self.attention, self.attention_out_norm = make.norm(), make.attention(), make.norm()
        self.feedforward_norm, self.feedforward, self.feedforward_out_norm = make.norm(), make.feedforward(), make.norm()
        self.dropout = Dropout(dims.dropout)

    def forward(
        self, x_BTD: Tensor, attention_context: AttentionContext, positions: Positions, cache: LayerCache | None
    ) -> Tensor:
        x_BTD, masks = self.before(x_BTD), attention_context.dropout_masks
        mixed_BTD = self.attention(self.attention_norm(x_BTD), attention_context, positions, cache)
        x_BTD = self.middle(x_BTD + self.dropout(self.attention_out_norm(mixed_BTD), masks))
        changed_BTD = feed(self.feedforward, self.feedforward_norm(x_BTD), attention_context, cache)
        return self.after(x_BTD + self.dropout(self.feedforward_out_norm(changed_BTD), masks))
