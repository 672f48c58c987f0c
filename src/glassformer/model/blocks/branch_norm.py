"""The block with the norm after each part, inside the residual sum."""

from __future__ import annotations

from typing import ClassVar, final

from torch import Tensor

from glassformer.model.attention_context import AttentionContext
from glassformer.model.dims import Dims
from glassformer.model.dropout import Dropout
from glassformer.model.kv_cache import LayerCache
from glassformer.model.slots import BLOCKS, Block, BlockConfig, LayerParts, Positions, feed
from glassformer.model.tap import STREAM, Tap


@BLOCKS.variant("branch_norm")
@final
class BranchNormConfig(BlockConfig):
    """x + norm(part(x)): the norm on what is added, not on what is read (reordered norm, OLMo 2 2025; Swin v2 2021)."""

    norms: ClassVar[int] = 2
    norm_at_end: ClassVar[bool] = True
    steps_to_learn: ClassVar[int] = 40  # the first layer reads the small vectors of the embedding as they are

    def build(self, dims: Dims, make: LayerParts) -> BranchNormBlock:
        return BranchNormBlock(dims, make)


@final
class BranchNormBlock(Block):
    def __init__(self, dims: Dims, make: LayerParts) -> None:
        super().__init__()
        self.before, self.middle, self.after = Tap(STREAM), Tap(STREAM), Tap(STREAM)
        self.attention, self.attention_norm = make.attention(), make.norm()
        self.feedforward, self.feedforward_norm = make.feedforward(), make.norm()
        self.dropout = Dropout(dims.dropout)

    def forward(
        self, x_BTD: Tensor, attention_context: AttentionContext, positions: Positions, cache: LayerCache | None
    ) -> Tensor:
        x_BTD, masks = self.before(x_BTD), attention_context.dropout_masks
        mixed_BTD = self.attention_norm(self.attention(x_BTD, attention_context, positions, cache))
        x_BTD = self.middle(x_BTD + self.dropout(mixed_BTD, masks))
        changed_BTD = self.feedforward_norm(feed(self.feedforward, x_BTD, attention_context, cache))
        return self.after(x_BTD + self.dropout(changed_BTD, masks))
