"""The points that tuning tries: a whole grid, or points drawn at random from lists and ranges."""

from __future__ import annotations

import numpy as np
import pytest
from tests.refusals import refused

from glassformer.foundation.errors import ConfigError
from glassformer.study.planning.plan import Range, StudyPlan, number_of_points, points_of

RATES = {"training.lr": Range(low=1e-5, high=1e-3), "training.batch_size": [32, 64]}


def test_a_grid_is_tried_whole_and_in_order():
    grid = {"a": [1, 2], "b": ["x", "y", "z"]}
    assert [tuple(point.values()) for point in points_of(grid)] == [(a, b) for a in (1, 2) for b in "xyz"]
    assert number_of_points(grid) == 6


def test_drawn_points_are_different_the_same_every_time_and_inside_their_ranges():
    points = points_of(RATES, 40)
    assert points == points_of(RATES, 40)
    assert points != points_of({**RATES, "training.lr": Range(low=1e-5, high=2e-3)}, 40)
    assert len({tuple(point.values()) for point in points}) == number_of_points(RATES, 40) == 40
    rates = np.array([point["training.lr"] for point in points])
    assert 1e-5 <= rates.min() < 4e-5
    assert 3e-4 < rates.max() <= 1e-3
    assert 0.3 < (rates < 1e-4).mean() < 0.7  # half of them in each decade
    assert {point["training.batch_size"] for point in points} == {32, 64}


def test_whole_numbers_stay_whole_and_a_linear_range_is_even():
    points = [point["n"] for point in points_of({"n": Range(low=1, high=1000, scale="linear")}, 60)]
    assert all(isinstance(value, int) for value in points)
    assert 350 < np.mean(points) < 650


@pytest.mark.parametrize(
    ("tune", "reason", "named"),
    [
        ({"grid": {"training.lr": {"low": 1e-5, "high": 1e-3}}}, "range-without-tries", "tune.grid.training.lr"),
        ({"grid": {"training.lr": [1, 2]}, "tries": 3}, "too-many-tries", "tune.tries=3"),
        ({"grid": {"training.lr": {"low": 1, "high": 2}}, "tries": 9}, "range-too-narrow", "tune.tries=9"),
        (
            {"grid": {"training.lr": {"low": 2e-3, "high": 1e-3}}, "tries": 3},
            "range-reversed",
            "low=0.002",
        ),
        ({"grid": {"training.lr": {"low": 0.0, "high": 1e-3}}, "tries": 3}, "range-not-positive", "low=0.0"),
    ],
)
def test_what_cannot_be_drawn_is_refused(tune, reason, named):
    with refused(ConfigError, reason, named):
        plan(tune).tuning_points("base")


def test_every_variant_draws_equally_many_and_a_plan_comes_back_from_its_file():
    tuned = plan({"grid": RATES, "tries": 5, "seeds": 2})
    assert tuned.tuning_points("base") == tuned.tuning_points("alibi")
    assert len(tuned.tuning_trials()) == 2 * 2 * 5
    assert StudyPlan.parse(tuned.to_dict()) == tuned
    own = {"name": "alibi", "set": {"model.positions": "alibi"}, "tune": {"training.lr": {"low": 1e-4, "high": 1e-2}}}
    other = StudyPlan.parse({**tuned.to_dict(), "changes": [own]})
    assert len(other.tuning_points("alibi")) == 5
    assert min(point["training.lr"] for point in other.tuning_points("alibi")) >= 1e-4
    assert "tries" not in plan({"grid": {"training.lr": [1, 2]}}).non_defaults()["tune"]


def plan(tune):
    plain = {name: value.to_dict() if isinstance(value, Range) else value for name, value in tune["grid"].items()}
    change = {"name": "alibi", "set": {"model.positions": "alibi"}}
    return StudyPlan.parse({"base": "shakespeare-char-cpu", "changes": [change], "tune": {**tune, "grid": plain}})
