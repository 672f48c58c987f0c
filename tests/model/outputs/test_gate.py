"""Gates by hand: one for every number, or one for each head."""

from __future__ import annotations

import math

import torch

from glassformer.model.dims import Dims
from glassformer.model.outputs.gate import GateConfig

DIMS = Dims(width=4, heads=2, layers=1, context=7, vocabulary=11, bias=False)


def test_per_element() -> None:
    gate = GateConfig().build(DIMS)
    with torch.no_grad():
        gate.gate.weight.copy_(torch.eye(4) * math.log(3))
    z, x = torch.ones(1, 2, 1, 2), torch.tensor([[[1.0, -1.0, 0.0, 1.0]]])
    torch.testing.assert_close(gate(z, x), torch.tensor([[[[0.75, 0.25]], [[0.5, 0.75]]]]))


def test_per_head() -> None:
    gate = GateConfig(per="head").build(DIMS)
    with torch.no_grad():
        gate.gate.weight.copy_(torch.eye(4)[:2] * math.log(3))
    z, x = torch.ones(1, 2, 1, 2), torch.tensor([[[1.0, -1.0, 9.0, 9.0]]])
    torch.testing.assert_close(gate(z, x), torch.tensor([[[[0.75, 0.75]], [[0.25, 0.25]]]]))
