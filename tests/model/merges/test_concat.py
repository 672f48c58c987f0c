"""Concatenation: heads side by side, in order."""

from __future__ import annotations

import torch

from glassformer.model.dims import Dims
from glassformer.model.merges.concat import ConcatConfig


def test_heads_in_order() -> None:
    z_BHTE = torch.arange(12.0).reshape(1, 3, 2, 2)
    merged = ConcatConfig().build(Dims(width=6, heads=3, layers=1, context=5, vocabulary=7))(z_BHTE)
    assert merged.tolist() == [[[0, 1, 4, 5, 8, 9], [2, 3, 6, 7, 10, 11]]]
