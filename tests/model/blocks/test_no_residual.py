"""The block without residual sums: by hand, with parts that can be worked out in the head."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from glassformer.model.attention_context import AttentionContext
from glassformer.model.blocks.no_residual import NoResidualConfig
from glassformer.model.dims import Dims
from glassformer.model.slots import LayerParts, Positions


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
    # 8 -> 3 * 4 = 12 -> 6 + 1 = 7: with the sums of the block ``pre`` it would be 31
    dims = Dims(width=2, heads=1, layers=1, context=5, vocabulary=7)
    block = NoResidualConfig().build(dims, LayerParts(TimesThree, PlusOne, Half))
    x_BTD = torch.full((1, 5, 2), 8.0)
    torch.testing.assert_close(block(x_BTD, AttentionContext(causal=True), Positions(), None), torch.full((1, 5, 2), 7.0))
