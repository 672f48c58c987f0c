"""What is measured: which way is better, which value is best, copies that plans and files carry."""

from __future__ import annotations

import json

import pytest
from tests.refusals import refused

from glassformer.foundation.errors import UnknownName
from glassformer.foundation.metrics import ACCURACY, BITS_PER_BYTE, EXACT_MATCH, KNOWN, LOSS, Metric


def test_the_direction_says_what_is_better() -> None:
    assert LOSS.better(-0.1)
    assert not LOSS.better(0.1)
    assert ACCURACY.better(0.1)
    assert not ACCURACY.better(-0.1)
    assert not LOSS.better(0.0)
    assert not ACCURACY.better(0.0)  # equal is no improvement, either way


def test_right_or_wrong_answers_have_a_range() -> None:
    assert (ACCURACY.bounds, ACCURACY.difference_bounds) == ((0.0, 1.0), (-1.0, 1.0))
    assert (LOSS.bounds, LOSS.difference_bounds) == (None, None)


def test_the_best_step_is_the_first_of_equal_ones() -> None:
    values = {3: 0.5, 7: 0.25, 9: 0.75, 12: 0.25, 15: 0.75}
    assert LOSS.best(values) == 7
    assert ACCURACY.best(values) == 9


def test_the_name_in_the_records_of_a_run() -> None:
    assert LOSS.recorded == "validation_loss"
    assert EXACT_MATCH.recorded == "validation_exact_match"


@pytest.mark.parametrize("metric", [*KNOWN, Metric("f1", "of 1", "harmonic mean", False, judged=False, margin=0.3)])
def test_a_copy_through_json_is_the_same(metric: Metric) -> None:
    assert Metric.from_dict(json.loads(json.dumps(metric.to_dict()))) == metric


def test_a_copy_of_another_version_keeps_what_is_known() -> None:
    assert Metric.from_dict({"name": "loss", "unit": "nats", "colour": "red"}) == Metric("loss", "nats")


def test_a_metric_by_its_name() -> None:
    own = Metric("loss", "bits", margin=0.2)
    assert Metric.named("loss", [own]) is own
    assert Metric.named("bits_per_byte") is BITS_PER_BYTE
    with refused(UnknownName, "unknown-name", "accuracy"):
        Metric.named("acuracy")
    with pytest.raises(UnknownName):
        Metric.named("accuracy", [own])
