"""The block whose vectors stay on the unit sphere."""

from __future__ import annotations

from typing import ClassVar, final

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn

from glassformer.model.attention_context import AttentionContext
from glassformer.model.dims import Dims
from glassformer.model.dropout import Dropout
from glassformer.model.kv_cache import LayerCache
from glassformer.model.slots import BLOCKS, Block, BlockConfig, LayerParts, Positions, feed
from glassformer.model.tap import STREAM, Tap


@BLOCKS.variant("sphere")
@final
class SphereConfig(BlockConfig):
    """x = u(x + a (u(part(x)) - x)), u(x) = x / ||x||: a step a on the sphere, trained by channel (nGPT, Loshchilov 2024).

    No norm inside; the feed-forward reads sqrt(width) x, which sets the paper's scale of its gate. The norm before the head
    takes the place of its scale of each token's score. Whole nGPT: ``model.norm: rms``, ``model.mixer.qk: l2``,
    ``training.after_step: normalised``, no weight decay.
    """

    norms: ClassVar[int] = 0
    norm_at_end: ClassVar[bool] = True
    steps_to_learn: ClassVar[int] = 60

    initial: float = Field(default=0.1, gt=0, le=1)
    """Where a starts (the paper: about 1 / layers)."""

    def build(self, dims: Dims, make: LayerParts) -> SphereBlock:
        return SphereBlock(dims, make, self.initial)


@final
class SphereBlock(Block):
    def __init__(self, dims: Dims, make: LayerParts, initial: float) -> None:
        super().__init__()
        self.before, self.middle, self.after = Tap(STREAM), Tap(STREAM), Tap(STREAM)
        self.attention, self.feedforward = make.attention(), make.feedforward()
        self.attention_step, self.feedforward_step = (nn.Parameter(torch.full((dims.width,), initial)) for _ in range(2))
        self.dropout, self.scale = Dropout(dims.dropout), dims.width**0.5

    def forward(
        self, x_BTD: Tensor, attention_context: AttentionContext, positions: Positions, cache: LayerCache | None
    ) -> Tensor:
        x_BTD, masks = F.normalize(self.before(x_BTD), dim=-1), attention_context.dropout_masks
        mixed_BTD = self.dropout(F.normalize(self.attention(x_BTD, attention_context, positions, cache), dim=-1), masks)
        x_BTD = self.middle(_moved(x_BTD, mixed_BTD, self.attention_step))
        fed_BTD = feed(self.feedforward, self.scale * x_BTD, attention_context, cache)
        changed_BTD = self.dropout(F.normalize(fed_BTD, dim=-1), masks)
        return self.after(_moved(x_BTD, changed_BTD, self.feedforward_step))


def _moved(x_BTD: Tensor, to_BTD: Tensor, step_D: Tensor) -> Tensor:
    return F.normalize(x_BTD + step_D.to(x_BTD.dtype) * (to_BTD - x_BTD), dim=-1)
