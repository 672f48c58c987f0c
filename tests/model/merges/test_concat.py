"""Concatenation: heads side by side, in order."""

from __future__ import annotations

import torch

from glassformer.model.dims import Dims
from glassformer.model.merges.concat import ConcatConfig

B, H, T, E = 2, 3, 5, 4


def test_by_hand() -> None:
    merge = ConcatConfig().build(Dims(width=12, heads=3, layers=1, context=7, vocabulary=11), layer=0)
    z_BHTE = torch.arange(B * H * T * E).reshape(B, H, T, E)
    merged = merge(z_BHTE)
    assert merged.shape == (B, T, H * E)
    for b, h, t, e in [(0, 0, 0, 0), (1, 2, 4, 3), (1, 0, 3, 2)]:
        assert merged[b, t, h * E + e] == z_BHTE[b, h, t, e]
    assert not list(merge.parameters())
