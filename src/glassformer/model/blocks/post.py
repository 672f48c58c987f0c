"""The block with the norm after each sum, as in the original Transformer."""

from __future__ import annotations

from typing import ClassVar, final

from torch import Tensor

from glassformer.model.attention_context import AttentionContext
from glassformer.model.dims import Dims
from glassformer.model.dropout import Dropout
from glassformer.model.kv_cache import LayerCache
from glassformer.model.slots import BLOCKS, Block, BlockConfig, LayerParts, Positions, feed
from glassformer.model.tap import STREAM, Tap


@BLOCKS.variant("post")
@final
class PostConfig(BlockConfig):
    """norm(x + part(x)): the norm after each sum, as in the original Transformer (Vaswani et al. 2017)."""

    norms: ClassVar[int] = 2
    takes_cross: ClassVar[bool] = True
    norm_at_end: ClassVar[bool] = False

    def build(self, dims: Dims, make: LayerParts) -> PostBlock:
        return PostBlock(dims, make)


@final
class PostBlock(Block):
    def __init__(self, dims: Dims, make: LayerParts) -> None:
        super().__init__()
        self.before, self.middle, self.after = Tap(STREAM), Tap(STREAM), Tap(STREAM)
        self.attention, self.attention_norm = make.attention(), make.norm()
        self.cross = None if make.cross is None else make.cross()
        self.cross_norm = None if make.cross is None else make.norm()
        self.feedforward, self.feedforward_norm = make.feedforward(), make.norm()
        self.dropout = Dropout(dims.dropout)

    def forward(
        self, x_BTD: Tensor, attention_context: AttentionContext, positions: Positions, cache: LayerCache | None
    ) -> Tensor:
        x_BTD = self.before(x_BTD)
        mixed_BTD = self.attention(x_BTD, attention_context, positions, cache)
        x_BTD = self.middle(self.attention_norm(x_BTD + self.dropout(mixed_BTD, attention_context.dropout_masks)))
        if self.cross is not None and self.cross_norm is not None:
            read_BTD = self.cross(x_BTD, attention_context, positions, None)
            x_BTD = self.cross_norm(x_BTD + self.dropout(read_BTD, attention_context.dropout_masks))
        changed_BTD = feed(self.feedforward, x_BTD, attention_context, cache)
        return self.after(self.feedforward_norm(x_BTD + self.dropout(changed_BTD, attention_context.dropout_masks)))
