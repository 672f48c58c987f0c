"""Shares with Wilson's interval and McNemar's test, by hand and against scipy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from glassformer.evaluation.proportions import TwoCheckpoints, mcnemar_mid_p, wilson


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
