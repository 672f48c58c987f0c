"""The block with the norm before each part and a trained scale on what each part adds."""

from __future__ import annotations

from typing import Any, ClassVar, final

import torch
from pydantic import Field
from torch import Tensor, nn

from glassformer.model.attention_context import AttentionContext
from glassformer.model.dims import Dims
from glassformer.model.dropout import Dropout
from glassformer.model.kv_cache import LayerCache
from glassformer.model.slots import BLOCKS, Block, BlockConfig, LayerParts, Positions, feed
from glassformer.model.tap import STREAM, Tap


@BLOCKS.variant("layer_scale")
@final
class LayerScaleConfig(BlockConfig):
    """x + a part(norm(x)), a trained by channel (LayerScale, Touvron et al. 2021) or by part (ReZero, Bachlechner et al. 2020).

    ``initial`` is where a starts: small for LayerScale, 0 for ReZero (``by_channel: false, initial: 0``).
    """

    norms: ClassVar[int] = 2
    norm_at_end: ClassVar[bool] = True
    steps_to_learn: ClassVar[int] = 60
    examples: ClassVar[tuple[dict[str, Any], ...]] = ({}, {"by_channel": False, "initial": 0.5})

    initial: float = Field(default=0.1, ge=0)
    by_channel: bool = True

    def build(self, dims: Dims, make: LayerParts) -> LayerScaleBlock:
        return LayerScaleBlock(dims, make, dims.width if self.by_channel else 1, self.initial)


@final
class LayerScaleBlock(Block):
    def __init__(self, dims: Dims, make: LayerParts, numbers: int, initial: float) -> None:
        super().__init__()
        self.before, self.middle, self.after = Tap(STREAM), Tap(STREAM), Tap(STREAM)
        self.attention_norm, self.attention = make.norm(), make.attention()
        self.feedforward_norm, self.feedforward = make.norm(), make.feedforward()
        self.attention_scale, self.feedforward_scale = (nn.Parameter(torch.full((numbers,), initial)) for _ in range(2))
        self.dropout = Dropout(dims.dropout)

    def forward(
        self, x_BTD: Tensor, attention_context: AttentionContext, positions: Positions, cache: LayerCache | None
    ) -> Tensor:
        x_BTD, masks = self.before(x_BTD), attention_context.dropout_masks
        mixed_BTD = self.attention(self.attention_norm(x_BTD), attention_context, positions, cache)
        x_BTD = self.middle(x_BTD + self.dropout(self.attention_scale.to(x_BTD.dtype) * mixed_BTD, masks))
        changed_BTD = feed(self.feedforward, self.feedforward_norm(x_BTD), attention_context, cache)
        return self.after(x_BTD + self.dropout(self.feedforward_scale.to(x_BTD.dtype) * changed_BTD, masks))
