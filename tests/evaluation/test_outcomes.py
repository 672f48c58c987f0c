"""Sums and weights by unit: the metric of each unit and of all, copies, and figures with intervals."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

from glassformer.evaluation.results import Outcomes, Units
from glassformer.foundation.errors import RunError
from glassformer.foundation.estimate import Estimate


def units(sums: list[float], weights: list[float]) -> Units:
    return Units(np.array(sums), np.array(weights))


def test_by_hand() -> None:
    """Three documents of 4, 0 and 2 tokens with 6, 0 and 5 nats: 11 nats of 6 tokens."""
    found = units([6.0, 0.0, 5.0], [4.0, 0.0, 2.0])
    assert found.values.tolist() == [1.5, 0.0, 2.5]
    assert found.value == pytest.approx(11 / 6)
    assert found.value != pytest.approx(found.values.mean())  # long units count for more


def test_where_nothing_weighs_anything_there_is_no_value() -> None:
    assert math.isnan(units([0.0, 2.0], [0.0, 0.0]).value)


def test_the_value_does_not_depend_on_order_or_on_the_cut_of_equal_units() -> None:
    one, other = units([6.0, 5.0, 3.0], [4.0, 2.0, 7.0]), units([3.0, 5.0, 6.0], [7.0, 2.0, 4.0])
    assert one.value == pytest.approx(other.value)
    assert one.value == pytest.approx(units([11.0, 3.0], [6.0, 7.0]).value)


def test_a_copy_through_json_is_the_same() -> None:
    found = units([6.0, 5.25], [4.0, 2.0])
    again = Units.from_dict(json.loads(json.dumps(found.to_dict())))
    assert (again.sums.tolist(), again.weights.tolist()) == ([6.0, 5.25], [4.0, 2.0])


@pytest.mark.parametrize("document", [{"sums": [1, 2, 3], "weights": [1, 2]}, {"sums": [[1, 2]], "weights": [[3, 4]]}])
def test_sums_that_are_not_one_to_a_weight_are_a_sentence(document) -> None:
    with pytest.raises(RunError, match=r"sums for \(.*\) weights of units"):
        Units.from_dict(document)


def test_the_figures_of_weighted_means() -> None:
    """Two documents of equal weight: the mean of 1 and 3 with Student's interval of one degree of freedom, 2 +- 12.706."""
    made = Outcomes.of_units({"loss": units([1.0, 3.0], [1.0, 1.0]), "right": units([5.0], [8.0])}, unit="question")
    assert list(made.figures) == ["loss", "right"]
    loss = made.figures["loss"]
    assert (loss.value, loss.n) == (2.0, 2)
    assert (loss.low, loss.high) == (pytest.approx(2 - 12.7062, abs=1e-3), pytest.approx(2 + 12.7062, abs=1e-3))
    assert made.figures["right"] == Estimate(0.625, n=1)  # one unit: a value, no interval
    assert (made.unit, made.scope) == ("question", "2 questions")
    assert (made.ids, dict(made.details), made.notes) == (None, {}, ())


def test_stretches_of_one_text_are_neighbours_not_a_sample() -> None:
    """Windows that wander slowly: their interval is wider than that of as many questions, and is that of blocks."""
    slow = np.sin(np.arange(60) / 9.0)
    made = {
        unit: Outcomes.of_units({"loss": Units(slow, np.ones(60))}, unit=unit).figures["loss"]
        for unit in ("question", "window", "block")
    }
    assert made["window"] == made["block"]
    widths = {unit: one.high - one.low for unit, one in made.items() if one.high is not None and one.low is not None}
    assert widths["window"] > 2 * widths["question"]


def test_what_is_given_is_kept() -> None:
    made = Outcomes.of_units({"loss": units([1.0], [2.0])}, unit="text", scope="a page", ids=["x"], figures={})
    assert (made.scope, made.ids, made.figures) == ("a page", ["x"], {})


def test_thousands_are_counted_readably() -> None:
    assert Outcomes.of_units({"right": units([1.0] * 1234, [1.0] * 1234)}, unit="text").scope == "1,234 texts"
