"""The jackknife interval by hand, by law and against a slow one."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.stats

from glassformer.evaluation.jackknife import degrees_of_freedom, mean, ratio


def test_equal_units_give_students_interval_by_hand() -> None:
    # mean 3, sample standard deviation sqrt(2.5), so the standard error is sqrt(0.5); t(.975; 4) = 2.776445
    found = mean(np.array([1.0, 2.0, 3.0, 4.0, 5.0]))
    assert (found.value, found.n) == (3.0, 5)
    assert found.low == pytest.approx(3 - 2.776445 * math.sqrt(0.5), rel=1e-6)
    assert found.high == pytest.approx(3 + 2.776445 * math.sqrt(0.5), rel=1e-6)


def test_ratio_against_leaving_out_one_at_a_time() -> None:
    rng = np.random.default_rng(2)
    bottom = rng.integers(1, 90, 13)
    top = bottom * rng.normal(3.0, 0.4, 13)
    without = [np.delete(top, i).sum() / np.delete(bottom, i).sum() for i in range(13)]
    value = top.sum() / bottom.sum()
    error = math.sqrt(12 / 13 * sum((one - value) ** 2 for one in without))
    df = bottom.sum() ** 2 / (bottom**2).sum() - 1
    found = ratio(top, bottom)
    assert found.value == pytest.approx(value, rel=1e-14)
    assert found.high - found.value == pytest.approx(scipy.stats.t.ppf(0.975, df) * error, rel=1e-9)
    assert found.value - found.low == pytest.approx(found.high - found.value, rel=1e-9)


def test_order_and_empty_units_do_not_matter_and_units_of_measure_scale() -> None:
    top, bottom = np.array([4.0, 9.0, 1.0, 30.0]), np.array([2, 3, 1, 11])
    found, order = ratio(top, bottom), [2, 0, 3, 1]
    again = ratio(np.append(top[order], 0.0), np.append(bottom[order], 0))
    scaled = ratio(top * 5, bottom)
    for name in ("value", "low", "high"):
        assert getattr(again, name) == pytest.approx(getattr(found, name), rel=1e-12)
        assert getattr(scaled, name) == pytest.approx(5 * getattr(found, name), rel=1e-12)
    assert again.n == 4


def test_one_unit_has_a_value_and_no_interval_and_none_has_a_reason() -> None:
    one = ratio(np.array([6.0]), np.array([4]))
    assert (one.value, one.low, one.high, one.n) == (1.5, None, None, 1)
    assert ratio(np.array([0.0]), np.array([0])).reason == "there is nothing to measure"


def test_long_documents_count_for_little_more_than_one() -> None:
    assert degrees_of_freedom(np.full(9, 20)) == pytest.approx(8.0)
    assert degrees_of_freedom(np.array([1000, 1, 1, 1])) == 1.0
    assert degrees_of_freedom(np.array([3, 1])) == 1.0
    assert degrees_of_freedom(np.array([2, 1, 1, 1])) == pytest.approx(25 / 7 - 1)


def coverage_of_blocks(correlation: float, texts: int, *, blocks: bool, count: int = 110) -> float:
    """How often the interval of one text's blocks holds the truth, neighbours being correlated."""
    rng, held = np.random.default_rng([texts, round(100 * correlation)]), 0
    for _ in range(texts):
        loss = np.empty(count)
        loss[0] = rng.standard_normal()
        for at in range(1, count):
            loss[at] = correlation * loss[at - 1] + math.sqrt(1 - correlation**2) * rng.standard_normal()
        found = ratio(1000 * (3 + loss), np.full(count, 1000), blocks=blocks)
        held += found.low <= 3.0 <= found.high
    return held / texts


@pytest.mark.parametrize("correlation", [0.0, 0.35])
def test_blocks_of_one_text_hold_the_truth_though_neighbours_are_alike(correlation: float) -> None:
    """As if they were independent: 95 and 83 %."""
    assert coverage_of_blocks(correlation, 600, blocks=True) == pytest.approx(0.945, abs=0.03)


def test_blocks_keep_their_value_and_need_their_order() -> None:
    top, bottom = np.array([4.0, 9.0, 1.0, 30.0, 2.0]), np.array([2, 3, 1, 11, 0])
    found = ratio(top, bottom, blocks=True)
    assert (found.value, found.n) == (ratio(top, bottom).value, 4)
    assert ratio(top[[1, 0, 2, 3, 4]], bottom[[1, 0, 2, 3, 4]], blocks=True).high != pytest.approx(found.high)
