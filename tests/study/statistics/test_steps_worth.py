"""What a gain is worth in steps: by hand."""

from __future__ import annotations

import numpy as np
import pytest

from glassformer.foundation.estimate import Estimate
from glassformer.study.statistics.steps_worth import Ruler, curve_ruler, steps_worth

# 0.2 nats a doubling, each seed a little steeper than the last
SEEDS = np.array([0.19, 0.20, 0.21])
RULER = Ruler((500, 1000, 2000), 3.0 - SEEDS[:, None] * np.array([-1.0, 0.0, 1.0]), at=1000)


def test_a_gain_of_one_doubling_is_worth_twice_the_steps():
    assert RULER.per_doubling == pytest.approx(0.2)
    worth = steps_worth("c", Estimate(0.2, 0.1, 0.3, 8), RULER, speed=0.5)
    assert worth.more_steps.value == pytest.approx(1.0)
    assert worth.at_equal_time.value == pytest.approx(0.0)
    assert worth.more_steps.low < 2**0.5 - 1 < 2**1.5 - 1 < worth.more_steps.high  # the ruler's noise widens it


def test_a_loss_is_worth_fewer_steps():
    worth = steps_worth("c", Estimate(-0.2, -0.21, -0.19, 8), RULER)
    assert worth.more_steps.value == pytest.approx(-0.5)
    assert worth.at_equal_time.value is None


def test_higher_is_better():
    up = Ruler(RULER.steps, 1.0 - RULER.values, at=1000, lower_is_better=False)
    assert up.per_doubling == pytest.approx(0.2)


def test_no_worth_without_a_steep_ruler_or_far_beyond_it():
    flat = Ruler((500, 1000), np.array([[3.0, 3.1], [3.1, 3.0]]), at=1000)
    assert steps_worth("c", Estimate(0.1, 0.0, 0.2, 8), flat).more_steps.value is None
    far = steps_worth("c", Estimate(0.41, 0.4, 0.42, 8), RULER)  # the ruler reaches one doubling; one more is allowed
    assert (far.more_steps.value, far.short) == (None, "more than 300 % more steps")
    assert steps_worth("c", Estimate(0.39, 0.38, 0.4, 8), RULER).more_steps.value is not None
    assert steps_worth("c", Estimate(-0.41, -0.42, -0.4, 8), RULER).short == "less than 25 % of the steps"


def test_the_curve_of_the_second_half():
    curves = [{100: 9.0, 500: 3.0, 750: 2.9, 1000: 2.8 - seed} for seed in (0.0, 0.01)]
    ruler = curve_ruler(curves, 1000)
    assert ruler is not None
    assert (ruler.steps, ruler.whole_runs) == ((500, 750, 1000), False)
    assert curve_ruler([{100: 9.0, 1000: 3.0}], 1000) is None
