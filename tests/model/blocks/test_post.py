"""The block with the norm after each sum: by hand, with parts that can be worked out in the head."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from glassformer.model.attention_context import AttentionContext
from glassformer.model.blocks.post import PostConfig
from glassformer.model.dims import Dims
from glassformer.model.slots import LayerParts, Positions

DIMS = Dims(width=2, heads=1, layers=1, context=5, vocabulary=7)


class TimesThree(nn.Module):
    """Stands for attention."""

    def forward(self, x_BTD: Tensor, context: AttentionContext, positions: Positions, cache: object) -> Tensor:
        return 3 * x_BTD


class PlusOne(nn.Module):
    """Stands for the feed-forward."""

    def forward(self, x_BTD: Tensor) -> Tensor:
        return x_BTD + 1


class Half(nn.Module):
    """Stands for the norm."""

    def forward(self, x_BTD: Tensor) -> Tensor:
        return x_BTD / 2


def test_by_hand() -> None:
    # 8 -> (8 + 24) / 2 = 16 -> (16 + 17) / 2 = 16.5
    block = PostConfig().build(DIMS, LayerParts(TimesThree, PlusOne, Half))
    x_BTD = torch.full((1, 5, 2), 8.0)
    torch.testing.assert_close(block(x_BTD, AttentionContext(causal=True), Positions(), None), torch.full((1, 5, 2), 16.5))
    assert (PostConfig.norms, PostConfig.norm_at_end) == (2, False)


def test_dropout_is_on_both_parts_and_not_on_the_stream() -> None:
    block = PostConfig().build(
        Dims(width=2, heads=1, layers=1, context=5, vocabulary=7, dropout=0.999), LayerParts(TimesThree, PlusOne, nn.Identity)
    )
    torch.manual_seed(0)
    x_BTD = torch.full((1, 5, 2), 8.0)
    dropped = block.train()(x_BTD, AttentionContext(causal=True), Positions(), None)
    torch.testing.assert_close(dropped, x_BTD)  # with this seed both parts are dropped everywhere
    assert not torch.allclose(block.eval()(x_BTD, AttentionContext(causal=True), Positions(), None), x_BTD)
