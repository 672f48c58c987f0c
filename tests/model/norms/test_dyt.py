"""Dynamic tanh by hand."""

from __future__ import annotations

import math

import torch

from glassformer.model.dims import Dims
from glassformer.model.norms.dyt import DyTConfig


def test_by_hand() -> None:
    norm = DyTConfig(initial=0.5).build(Dims(width=2, heads=1, layers=1, context=5, vocabulary=7))
    norm.weight.data[:], norm.bias.data[:] = torch.tensor([2.0, 3.0]), torch.tensor([0.0, 1.0])
    found = norm(torch.tensor([[[4.0, -2.0]]])).detach()
    torch.testing.assert_close(found, torch.tensor([[[2 * math.tanh(2.0), 1 - 3 * math.tanh(1.0)]]]))
