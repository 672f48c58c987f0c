"""Concatenation: heads side by side, in order."""

from __future__ import annotations

import torch

from glassformer.model.dims import Dims
from glassformer.model.merges.concat import ConcatConfig

<<<<<<< HEAD
B, H, T, E = 2, 3, 5, 4


def test_by_hand() -> None:
    merge = ConcatConfig().build(Dims(width=12, heads=3, layers=1, context=7, vocabulary=11), layer=0)
    z_BHTE = torch.arange(B * H * T * E).reshape(B, H, T, E)
    merged = merge(z_BHTE)
    assert merged.shape == (B, T, H * E)
    for b, h, t, e in [(0, 0, 0, 0), (1, 2, 4, 3), (1, 0, 3, 2)]:
        assert merged[b, t, h * E + e] == z_BHTE[b, h, t, e]
    assert not list(merge.parameters())
=======

def test_heads_in_order() -> None:
    z_BHTE = torch.arange(12.0).reshape(1, 3, 2, 2)
    merged = ConcatConfig().build(Dims(width=6, heads=3, layers=1, context=5, vocabulary=7), 0)(z_BHTE)
    assert merged.tolist() == [[[0, 1, 4, 5, 8, 9], [2, 3, 6, 7, 10, 11]]]
>>>>>>> main
