"""FIRE: what the small network reads, by hand; beyond L distances are relative to the query."""

from __future__ import annotations

import math

import torch
from torch import nn

from glassformer.model.dims import Dims
from glassformer.model.positions.fire import FireConfig


def test_bias_by_hand() -> None:
    positions = FireConfig(hidden=1, length=3.0).build(Dims(width=6, heads=2, layers=1, context=9, vocabulary=7))
    nn.init.ones_(positions.first.weight)
    nn.init.zeros_(positions.first.bias)
    with torch.no_grad():
        positions.second.weight.copy_(torch.tensor([[1.0], [-2.0]]))
    bias_BHTS = positions.bias(torch.tensor([[2, 8]]), 9).detach()
    assert bias_BHTS.shape == (1, 2, 2, 9)

    def share(distance: float, longest: float) -> float:
        return math.log1p(0.1 * distance) / math.log1p(0.1 * longest)

    torch.testing.assert_close(bias_BHTS[0, 0, 0, 0].item(), share(2, 3), rtol=1e-5, atol=0.0)  # before L
    torch.testing.assert_close(bias_BHTS[0, 0, 1, 0].item(), share(8, 8), rtol=1e-5, atol=0.0)  # the furthest key is 1
    torch.testing.assert_close(bias_BHTS[0, 1, 1, 6].item(), -2 * share(2, 8), rtol=1e-5, atol=0.0)
