"""The plain stack by hand."""

from __future__ import annotations

import torch

from glassformer.model.dims import Dims
from glassformer.model.stacks.plain import PlainConfig

DIMS = Dims(width=2, heads=1, layers=3, context=5, vocabulary=7)


def test_one_layer_after_another() -> None:
    layers = [lambda x: x + 1, lambda x: 2 * x, lambda x: x - 3]
    assert PlainConfig().build(DIMS)(torch.full((1, 1, 2), 4.0), layers).tolist() == [[[7.0, 7.0]]]
    assert [PlainConfig().block_of(DIMS, layer) for layer in range(3)] == [0, 1, 2]
