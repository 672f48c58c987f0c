"""The gated feed-forward: by hand, and what it costs beside the plain one."""

from __future__ import annotations

import math

import torch

from glassformer.model.dims import Dims
from glassformer.model.feedforwards.gated import GatedConfig
from glassformer.model.feedforwards.mlp import GELUConfig

DIMS = Dims(width=2, heads=1, layers=1, context=5, vocabulary=7, bias=False)


def test_by_hand() -> None:
    # inner width 1: gate = x1, up = x2, down = (h, -h) with h = SiLU(x1) * x2; SiLU(2) = 2 / (1 + e^-2)
    module = GatedConfig(inner=1).build(DIMS)
    with torch.no_grad():
        module.gate_and_up.weight.copy_(torch.tensor([[1.0, 0.0], [0.0, 1.0]]))
        module.down.weight.copy_(torch.tensor([[1.0], [-1.0]]))
    h = 2 / (1 + math.exp(-2)) * 3
    torch.testing.assert_close(module(torch.tensor([[2.0, 3.0]])), torch.tensor([[h, -h]]))


def test_eight_thirds_cost_what_four_cost_without_a_gate() -> None:
    wide = Dims(width=96, heads=3, layers=1, context=5, vocabulary=7, bias=False)
    assert GatedConfig().inner_width(wide) == 256
    for config in (GatedConfig(), GELUConfig()):
        assert sum(one.numel() for one in config.build(wide).parameters()) == 8 * 96 * 96
    assert GatedConfig().flops(wide, 2, 5) == GELUConfig().flops(wide, 2, 5)
