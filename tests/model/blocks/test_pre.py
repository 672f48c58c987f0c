"""The block with the norm before each part: by hand, with parts that can be worked out in the head."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from glassformer.model.attention_context import AttentionContext
from glassformer.model.blocks.pre import PreConfig
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
    # 8 -> 8 + 3 * 4 = 20 -> 20 + (10 + 1) = 31
    block = PreConfig().build(DIMS, LayerParts(TimesThree, PlusOne, Half))
    x_BTD = torch.full((1, 5, 2), 8.0)
    torch.testing.assert_close(block(x_BTD, AttentionContext(causal=True), Positions(), None), torch.full((1, 5, 2), 31.0))
    assert (PreConfig.norms, PreConfig.norm_at_end) == (2, True)


def test_dropout_is_on_both_parts_and_not_on_the_stream() -> None:
    block = PreConfig().build(
        Dims(width=2, heads=1, layers=1, context=5, vocabulary=7, dropout=0.999), LayerParts(TimesThree, PlusOne, nn.Identity)
    )
    torch.manual_seed(0)
    x_BTD = torch.full((1, 5, 2), 8.0)
    dropped = block.train()(x_BTD, AttentionContext(causal=True), Positions(), None)
    torch.testing.assert_close(dropped, x_BTD)  # with this seed both parts are dropped everywhere
    assert not torch.allclose(block.eval()(x_BTD, AttentionContext(causal=True), Positions(), None), x_BTD)
