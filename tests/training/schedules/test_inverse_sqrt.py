"""Up in a straight line, then down with the inverse square root: the original's own formula."""

from __future__ import annotations

import pytest

from glassformer.training.schedules.inverse_sqrt import InverseSqrtConfig


def test_it_is_the_formula_of_2017() -> None:
    schedule, width, warmup = InverseSqrtConfig(warmup=3999), 512, 4000
    peak = width**-0.5 * warmup**-0.5
    for step in (1, 10, 2000, 3999, 4000, 4001, 16_000, 100_000):
        theirs = width**-0.5 * min(step**-0.5, step * warmup**-1.5)
        assert peak * schedule.lr_multiplier(step - 1, 100_000) == pytest.approx(theirs)


def test_a_warm_up_of_its_own_length() -> None:
    assert InverseSqrtConfig().lr_multiplier(100, 10_000) == 1.0
    assert InverseSqrtConfig(warmup=0).lr_multiplier(0, 10) == 1.0
    assert InverseSqrtConfig(warmup=0).lr_multiplier(3, 10) == 0.5
