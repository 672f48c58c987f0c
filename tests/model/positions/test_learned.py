<<<<<<< HEAD
"""Learned positions: one vector per place, wherever the tokens stand."""
=======
"""Learned positions: one row of the table per place, wherever the token stands."""
>>>>>>> main

from __future__ import annotations

import torch

from glassformer.model.dims import Dims
from glassformer.model.positions.learned import LearnedConfig

<<<<<<< HEAD
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
=======

def test_adds_the_row_of_each_place() -> None:
    positions = LearnedConfig().build(Dims(width=6, heads=2, layers=1, context=5, vocabulary=7))
    at_BT = torch.tensor([[4, 0], [1, 1]])
    added = positions.embed(torch.zeros(2, 2, 6), at_BT)
    torch.testing.assert_close(added[0, 0], positions.table.weight[4])
    torch.testing.assert_close(added[1, 0], added[1, 1], rtol=0, atol=0)
>>>>>>> main
