"""Warm-up and a straight line down, by hand."""

from __future__ import annotations

import pytest

from glassformer.training.schedules.linear import LinearConfig


def test_by_hand() -> None:
    schedule = LinearConfig(warmup=1, final=0.0)
    assert [schedule.lr_multiplier(step, 5) for step in range(6)] == pytest.approx([0.5, 1.0, 0.75, 0.5, 0.25, 0.0])
    assert LinearConfig(warmup=0, final=0.4).lr_multiplier(5, 10) == pytest.approx(0.7)
    assert LinearConfig(warmup=0, final=0.4).lr_multiplier(50, 10) == pytest.approx(0.4)
