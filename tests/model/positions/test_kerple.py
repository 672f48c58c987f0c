"""KERPLE: the bias by hand, and its rates are trained."""

from __future__ import annotations

import math

import torch

from glassformer.model.dims import Dims
from glassformer.model.positions.kerple import KerpleConfig


def test_bias_by_hand() -> None:
    positions = KerpleConfig().build(Dims(width=6, heads=2, layers=1, context=5, vocabulary=7))
    with torch.no_grad():
        positions.log_a_H[1], positions.log_b_H[1] = math.log(3.0), math.log(0.5)
    bias_BHTS = positions.bias(torch.tensor([[2, 4]]), 5)
    assert bias_BHTS.shape == (1, 2, 2, 5)
    torch.testing.assert_close(bias_BHTS[0, 0, 0], -torch.tensor([3.0, 2.0, 1.0, 2.0, 3.0]).log())
    torch.testing.assert_close(bias_BHTS[0, 1, 1], -3 * torch.tensor([3.0, 2.5, 2.0, 1.5, 1.0]).log())
