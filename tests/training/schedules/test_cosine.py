"""Warm-up and half a cosine, by hand."""

from __future__ import annotations

import pytest

from glassformer.training.schedules.cosine import CosineConfig


def test_by_hand() -> None:
    # warm-up of 2 (1/3, 2/3), then a cosine over 8 steps: cos 0 = 1, cos 60 deg = 1/2, cos 90 deg = 0, cos 180 deg = -1
    schedule = CosineConfig(warmup=2, final=0.2)
    steps = 2 + 12
    assert [schedule.lr_multiplier(step, steps) for step in (0, 1)] == pytest.approx([1 / 3, 2 / 3])
    expected = {2: 1.0, 6: 0.2 + 0.8 * 0.75, 8: 0.2 + 0.8 * 0.5, 10: 0.2 + 0.8 * 0.25, 14: 0.2, 99: 0.2}
    assert {step: schedule.lr_multiplier(step, steps) for step in expected} == pytest.approx(expected)


def test_a_warm_up_of_its_own() -> None:
    assert CosineConfig().lr_multiplier(0, 40) == pytest.approx(1 / 3)  # a twentieth of 40 steps is 2
    assert CosineConfig().lr_multiplier(2, 40) == 1.0


def test_a_warm_up_longer_than_the_run() -> None:
    assert [CosineConfig(warmup=9).lr_multiplier(step, 3) for step in range(3)] == pytest.approx([0.1, 0.2, 0.3])
