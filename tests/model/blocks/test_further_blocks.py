"""Blocks by hand, with parts that can be worked out in the head: attention 3x, feed-forward x + 1, norm x / 2."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from glassformer.model.attention_context import AttentionContext
from glassformer.model.dims import Dims
from glassformer.model.slots import BLOCKS, LayerParts, Positions

from .test_pre import Half, PlusOne, TimesThree

DIMS = Dims(width=2, heads=1, layers=1, context=5, vocabulary=7)


@pytest.mark.parametrize(
    ("kind", "settings", "expected", "norms"),
    [
        ("sandwich", {}, 8 + 6 + (7 + 1) / 2, 4),  # 8 + (3 * 4) / 2 = 14; 14 + (14 / 2 + 1) / 2 = 18
        ("branch_norm", {}, 20 + (20 + 1) / 2, 2),  # 8 + (3 * 8) / 2 = 20
        ("parallel", {}, 8 + 3 * 4 + (4 + 1), 1),
        ("parallel", {"own_norms": 2}, 8 + 3 * 4 + (4 + 1), 2),
        ("macaron", {}, 26.25 + 0.5 * (26.25 / 2 + 1), 3),  # 8 + 0.5 * (4 + 1) = 10.5; + 3 * 5.25 = 26.25
        ("layer_scale", {"initial": 0.5}, 14 + 0.5 * (7 + 1), 2),  # 8 + 0.5 * 3 * 4 = 14
        ("layer_scale", {"initial": 0.5, "by_channel": False}, 14 + 0.5 * (7 + 1), 2),
    ],
)
def test_by_hand(kind: str, settings: dict[str, Any], expected: float, norms: int) -> None:
    config = BLOCKS.parse({"kind": kind, **settings})
    block = config.build(DIMS, LayerParts(TimesThree, PlusOne, Half)).eval()
    x_BTD = torch.full((1, 5, 2), 8.0)
    found = block(x_BTD, AttentionContext(causal=True), Positions(), None).detach()
    torch.testing.assert_close(found, torch.full((1, 5, 2), float(expected)))
    assert config.num_norms == norms == sum(isinstance(part, Half) for part in block.modules())
