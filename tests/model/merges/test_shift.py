"""Shift: the second head first, the first last."""

from __future__ import annotations

import torch
from tests.refusals import refused

from glassformer.foundation.errors import ConfigError
from glassformer.model.config import ModelConfig
from glassformer.model.dims import Dims
from glassformer.model.merges.shift import ShiftConfig


def test_second_head_first() -> None:
    z_BHTE = torch.arange(12.0).reshape(1, 3, 2, 2)
    merged = ShiftConfig().build(Dims(width=6, heads=3, layers=1, context=5, vocabulary=7))(z_BHTE)
    assert merged.tolist() == [[[4, 5, 8, 9, 0, 1], [6, 7, 10, 11, 2, 3]]]


def test_one_head_is_refused_because_nothing_would_move() -> None:
    with refused(ConfigError, "bad-value", "model.merge=shift", "model.heads=1"):
        ModelConfig.parse({"merge": "shift", "heads": 1})
