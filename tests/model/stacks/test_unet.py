"""Mirrored skips, by hand."""

from __future__ import annotations

import torch
from tests.refusals import refused

from glassformer.foundation.errors import ConfigError
from glassformer.model.config import ModelConfig
from glassformer.model.dims import Dims
from glassformer.model.stacks.unet import UNetConfig


def test_by_hand() -> None:
    # 4 -> 5 -> 10 -> 9 -> 9 + 1 * 10 = 19 -> 38 -> 38 + 2 * 5 = 48 -> 45
    stack = UNetConfig().build(Dims(width=1, heads=1, layers=5, context=5, vocabulary=7))
    layers = [lambda x: x + 1, lambda x: 2 * x, lambda x: x - 1, lambda x: 2 * x, lambda x: x - 3]
    stack.weights.data[0] = 2.0
    assert float(stack(torch.full((1, 1, 1), 4.0), layers).detach()) == 45.0


def test_one_layer_has_no_mirror() -> None:
    with refused(ConfigError, "bad-value", "model.layers=1"):
        ModelConfig.parse({"layers": 1, "stack": "unet"})
