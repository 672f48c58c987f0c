"""Warm-up, a stable rate, a decay at the end, by hand."""

from __future__ import annotations

import pytest

from glassformer.training.schedules.stable import StableConfig


def test_by_hand() -> None:
    # 10 steps, the last 40 % fall: 1 until step 6, then 1, 3/4, 1/2, 1/4, and 0 at the end
    schedule = StableConfig(warmup=1, decay=0.4, final=0.0)
    expected = [0.5, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 0.75, 0.5, 0.25, 0.0]
    assert [schedule.lr_multiplier(step, 10) for step in range(11)] == pytest.approx(expected)


def test_no_decay_and_a_floor() -> None:
    assert [StableConfig(warmup=0, decay=0.0).lr_multiplier(step, 10) for step in range(10)] == [1.0] * 10
    assert StableConfig(warmup=0, decay=0.5, final=0.5).lr_multiplier(10, 10) == pytest.approx(0.5)
