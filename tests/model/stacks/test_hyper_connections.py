"""Several streams, by hand; the plain stack at the start."""

from __future__ import annotations

import torch

from glassformer.model.dims import Dims
from glassformer.model.stacks.hyper_connections import HyperConnectionsConfig

DIMS = Dims(width=1, heads=1, layers=2, context=5, vocabulary=7)


def test_by_hand() -> None:
    stack = HyperConnectionsConfig(streams=2).build(DIMS)
    layers = [lambda x: x + 1, lambda x: 10 * x]
    x_BTD = torch.full((1, 1, 1), 4.0)
    assert float(stack(x_BTD, layers).detach()) == 50.0  # 4 -> 5 -> 50, in both streams
    # layer 0 reads 4 and changes it by 1: streams 4 + 2 and 4 + 1; layer 1 reads the second, 5, and changes it by 45;
    # the streams become (6 + 5) + 45 and 5 + 45, and their mean is 53
    stack.write[0].data[:] = torch.tensor([2.0, 1.0])
    stack.mix[1].data[:] = torch.tensor([1.0, 1.0, 0.0, 1.0])
    assert float(stack(x_BTD, layers).detach()) == 53.0
