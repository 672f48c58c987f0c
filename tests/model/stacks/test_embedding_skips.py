"""Skips from the embedding, by hand; the plain stack at the start."""

from __future__ import annotations

import torch

from glassformer.model.dims import Dims
from glassformer.model.stacks.embedding_skips import EmbeddingSkipsConfig

DIMS = Dims(width=1, heads=1, layers=2, context=5, vocabulary=7)


def test_by_hand() -> None:
    # 4 -> (1 * 4 + 0 * 4) + 1 = 5 -> 10 * (2 * 5 + 3 * 4) = 220
    stack = EmbeddingSkipsConfig().build(DIMS)
    layers = [lambda x: x + 1, lambda x: 10 * x]
    x_BTD = torch.full((1, 1, 1), 4.0)
    assert float(stack(x_BTD, layers).detach()) == 50.0
    stack.stream_L.data[1], stack.embedding_L.data[1] = 2.0, 3.0
    assert float(stack(x_BTD, layers).detach()) == 220.0
