"""Queries and keys as they are."""

from __future__ import annotations

import torch

from glassformer.model.dims import Dims
from glassformer.model.slots import NoQueryKeyMap


def test_nothing_changes() -> None:
    q, k = torch.randn(2, 3, 5, 4), torch.randn(2, 1, 5, 4)
    found = NoQueryKeyMap().build(Dims(width=12, heads=3, layers=1, context=7, vocabulary=11))(q, k)
    assert found[0] is q
    assert found[1] is k
