"""QK-norm by hand: over a head, over all heads, with and without weights."""

from __future__ import annotations

import math

import torch

from glassformer.model.dims import Dims
from glassformer.model.qk.rms import RMSConfig

DIMS = Dims(width=4, heads=2, layers=1, context=7, vocabulary=11, own_kv_heads=1)
Q = torch.tensor([[[[3.0, 4.0]], [[0.0, 2.0]]]])  # one token, two heads of two
K = torch.tensor([[[[1.0, 1.0]]]])


def test_over_a_head() -> None:
    found = RMSConfig(eps=1e-12).build(DIMS)(Q, K)
    root = math.sqrt(12.5)
    torch.testing.assert_close(found[0], torch.tensor([[[[3 / root, 4 / root]], [[0.0, math.sqrt(2)]]]]))
    torch.testing.assert_close(found[1], K)


def test_over_the_whole_width() -> None:
    layer = RMSConfig(over="width", eps=1e-12).build(DIMS)
    with torch.no_grad():
        layer.query_norm.weight.copy_(torch.tensor([1.0, 1.0, 1.0, 5.0]))
    root = math.sqrt((9 + 16 + 0 + 4) / 4)
    torch.testing.assert_close(layer(Q, K)[0], torch.tensor([[[[3 / root, 4 / root]], [[0.0, 10 / root]]]]))


def test_parameters() -> None:
    def sizes(config: RMSConfig) -> list[int]:
        return [len(one) for one in config.build(DIMS).parameters()]

    assert sizes(RMSConfig()) == [2, 2]  # two weights of a head each, for queries and for keys
    assert sizes(RMSConfig(over="width")) == [4, 2]
    assert not sizes(RMSConfig(learned=False))
