"""Learned positions: one row of the table per place, wherever the token stands."""

from __future__ import annotations

import torch

from glassformer.model.dims import Dims
from glassformer.model.positions.learned import LearnedConfig


def test_adds_the_row_of_each_place() -> None:
    positions = LearnedConfig().build(Dims(width=6, heads=2, layers=1, context=5, vocabulary=7))
    position_ids_BT = torch.tensor([[4, 0], [1, 1]])
    added = positions.embed(torch.zeros(2, 2, 6), position_ids_BT)
    torch.testing.assert_close(added[0, 0], positions.table.weight[4])
    torch.testing.assert_close(added[1, 0], added[1, 1], rtol=0, atol=0)


def test_rows_before_the_first_place() -> None:
    positions = LearnedConfig(offset=2).build(Dims(width=6, heads=2, layers=1, context=5, vocabulary=7))
    assert positions.table.weight.shape == (7, 6)
    added = positions.embed(torch.zeros(1, 2, 6), torch.tensor([[0, 4]]))
    torch.testing.assert_close(added[0], positions.table.weight[[2, 6]])
