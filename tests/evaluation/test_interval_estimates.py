"""Intervals and tests of one run: the jackknife, blocks of one text, Wilson and McNemar, by hand and against slow ones."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from glassformer.evaluation.interval_estimates import (
    TwoCheckpoints,
    block_variance,
    cosine_basis,
    degrees_of_freedom,
    mcnemar_mid_p,
    mean,
    num_cosines,
    ratio,
    wilson,
)


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
    t = (found.high - found.value) / error
    assert float(mpmath.betainc(df / 2, 0.5, 0, df / (df + t * t), regularized=True)) == pytest.approx(0.05, rel=1e-9)
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
    assert 0.95 <= coverage_of_blocks(correlation, 600, blocks=True) <= 1.0


def test_blocks_keep_their_value_and_need_their_order() -> None:
    top, bottom = np.array([4.0, 9.0, 1.0, 30.0, 2.0]), np.array([2, 3, 1, 11, 0])
    found = ratio(top, bottom, blocks=True)
    assert (found.value, found.n) == (ratio(top, bottom).value, 4)
    assert ratio(top[[1, 0, 2, 3, 4]], bottom[[1, 0, 2, 3, 4]], blocks=True).high != pytest.approx(found.high)


def test_waves_are_few_orthogonal_and_blind_to_a_constant():
    for blocks in (2, 10, 110, 1000):
        basis = cosine_basis(blocks)
        assert basis.shape == (blocks, num_cosines(blocks))
        np.testing.assert_allclose(basis.T @ basis, np.eye(num_cosines(blocks)), atol=1e-12)
        np.testing.assert_allclose(basis.sum(axis=0), 0.0, atol=1e-12)
    assert [num_cosines(blocks) for blocks in (2, 10, 110, 1000)] == [1, 2, 4, 17]


def test_two_blocks_by_hand():
    # one wave along two blocks: (cos(pi/4), cos(3 pi/4)) = (1, -1) / sqrt 2, so 2 * 2 ((a - b) / sqrt 2)^2 = 2 (a - b)^2
    assert float(block_variance(np.array([0.25, -0.25]))) == pytest.approx(0.5)
    assert math.isclose(float(block_variance(np.array([1.0, 3.0]))), 8.0)


@pytest.mark.parametrize(("right", "items"), [(0, 8), (7, 10), (10, 10), (333, 1000)])
def test_wilson_is_that_of_scipy(right, items):
    found, oracle = wilson(right, items), stats.binomtest(right, items).proportion_ci(0.95, method="wilson")
    assert (found.low, found.high) == pytest.approx((oracle.low, oracle.high), abs=1e-12)
    assert (found.value, found.n) == (right / items, items)
    assert wilson(0, 0).value is None


def test_mcnemar_by_hand():
    # 1 against 6: 2 (P(X=0) + P(X=1)/2) with X binomial(7, 1/2) = 2 (1 + 7/2) / 128
    assert mcnemar_mid_p(1, 6) == mcnemar_mid_p(6, 1) == 9 / 128
    assert mcnemar_mid_p(4, 4) == mcnemar_mid_p(0, 0) == 1.0


@given(st.integers(0, 60), st.integers(0, 60))
def test_mcnemar_is_the_exact_p_less_half_a_point(b, c):
    if b != c:
        exact = stats.binomtest(b, b + c).pvalue
        assert mcnemar_mid_p(b, c) == pytest.approx(exact - stats.binom.pmf(b, b + c, 0.5), rel=1e-9, abs=1e-15)


def test_two_checkpoints_by_hand():
    found = TwoCheckpoints.of(np.array([1, 1, 1, 0, 0.0]), np.array([1, 0, 0, 1, 0.0]))
    assert found.to_dict() == {"both": 1, "only_first": 2, "only_second": 1, "neither": 1, "p": mcnemar_mid_p(2, 1)}
    assert "only the second on 1" in str(found)


def test_none_and_all_have_exact_ends() -> None:
    for items in range(1, 200):
        assert (wilson(0, items).low, wilson(items, items).high) == (0.0, 1.0)
