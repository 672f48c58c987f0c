"""No positions: nothing is added, turned or biased."""

from __future__ import annotations

import torch

from glassformer.model.dims import Dims
from glassformer.model.slots import NoPositions


def test_every_way_in_is_the_identity() -> None:
    positions = NoPositions().build(Dims(width=6, heads=2, layers=1, context=5, vocabulary=7))
    x, position_ids_BT = torch.randn(3, 4, 6), torch.arange(4).unsqueeze(0)
    assert positions.embed(x, position_ids_BT) is x
    assert positions.rotate(x, position_ids_BT) is x
    assert positions.bias(position_ids_BT, 4) is None
