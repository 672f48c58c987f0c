"""Weighted means of depths, by hand; the plain stack at the start."""

from __future__ import annotations

import torch

from glassformer.model.dims import Dims
from glassformer.model.stacks.depth_means import DepthMeansConfig

DIMS = Dims(width=1, heads=1, layers=2, context=5, vocabulary=7)


def test_by_hand() -> None:
    # 4 -> layer: 5 -> mean 0.5 * 4 + 1 * 5 = 7 -> layer: 70 -> 1 * 4 + 2 * 5 + 0.1 * 70 = 21
    stack = DepthMeansConfig().build(DIMS)
    layers = [lambda x: x + 1, lambda x: 10 * x]
    x_BTD = torch.full((1, 1, 1), 4.0)
    assert float(stack(x_BTD, layers).detach()) == 50.0
    stack.weights[0].data[:] = torch.tensor([0.5, 1.0])
    stack.weights[1].data[:] = torch.tensor([1.0, 2.0, 0.1])
    torch.testing.assert_close(stack(x_BTD, layers).detach(), torch.full((1, 1, 1), 21.0))
