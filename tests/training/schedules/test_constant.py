"""The constant schedule, by hand."""

from __future__ import annotations

from glassformer.training.schedules.constant import ConstantConfig


def test_by_hand() -> None:
    assert [ConstantConfig().lr_multiplier(step, 5) for step in range(5)] == [1.0] * 5
    assert [ConstantConfig(warmup=3).lr_multiplier(step, 5) for step in range(5)] == [0.25, 0.5, 0.75, 1.0, 1.0]
