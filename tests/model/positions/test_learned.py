"""Learned positions: one vector per place, wherever the tokens stand."""

from __future__ import annotations

import torch

from glassformer.model.dims import Dims
from glassformer.model.positions.learned import LearnedConfig

DIMS = Dims(width=2, heads=1, layers=1, context=3, vocabulary=7)


def test_by_hand() -> None:
    positions = LearnedConfig().build(DIMS)
    with torch.no_grad():
        positions.table.weight.copy_(torch.tensor([[1.0, 0.0], [0.0, 1.0], [5.0, 5.0]]))
    x_BTD = torch.tensor([[[10.0, 10.0], [20.0, 20.0]]])
    moved = positions.embed(x_BTD, torch.tensor([[2, 0]]))
    torch.testing.assert_close(moved, torch.tensor([[[15.0, 15.0], [21.0, 20.0]]]))
    assert LearnedConfig().parameters(DIMS) == 6
    assert LearnedConfig.enters == "embedding"
