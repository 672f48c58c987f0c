"""Counts against scipy: answers, failed runs, rare events."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from glassformer.evaluation.statistics import mcnemar_mid_p, wilson
from glassformer.study.inference.binomial_bounds import Rate, at_most_probability, failure_rate_bound, items_needed
from glassformer.study.inference.two_way import two_way_effects


class TestAnswers:
    def test_eight_runs_without_failure_leave_31_per_cent_possible(self):
        assert failure_rate_bound(0, 8) == pytest.approx(1 - 0.05 ** (1 / 8))
        assert round(100 * failure_rate_bound(0, 8)) == 31
        assert failure_rate_bound(8, 8) == 1.0
        assert failure_rate_bound(2, 8) == pytest.approx(
            stats.binomtest(2, 8, alternative="less").proportion_ci(0.95, method="exact").high
        )

    @pytest.mark.parametrize(("right", "items"), [(0, 8), (7, 10), (10, 10), (333, 1000)])
    def test_wilson_is_that_of_scipy(self, right, items):
        found, oracle = wilson(right, items), stats.binomtest(right, items).proportion_ci(0.95, method="wilson")
        assert (found.low, found.high) == pytest.approx((oracle.low, oracle.high), abs=1e-12)
        assert found.value == right / items
        assert found.n == items

    def test_wilson_of_nothing(self):
        assert wilson(0, 0).value is None

    def test_mcnemar_by_hand(self):
        # 1 against 6: 2 (P(X=0) + P(X=1)/2) with X binomial(7, 1/2) = 2 (1 + 7/2) / 128
        assert mcnemar_mid_p(1, 6) == mcnemar_mid_p(6, 1) == 9 / 128
        assert mcnemar_mid_p(4, 4) == mcnemar_mid_p(0, 0) == 1.0

    @given(st.integers(0, 60), st.integers(0, 60))
    def test_mcnemar_is_the_exact_p_less_half_a_point(self, b, c):
        if b != c:
            exact = stats.binomtest(b, b + c).pvalue
            assert mcnemar_mid_p(b, c) == pytest.approx(exact - stats.binom.pmf(b, b + c, 0.5), rel=1e-9, abs=1e-15)

    def test_answers_of_several_seeds_go_through_the_crossed_analysis(self):
        base = np.array([[1, 0, 1, 1], [1, 0, 0, 1], [1, 1, 0, 1]])
        variant = np.array([[1, 1, 1, 1], [1, 1, 0, 1], [1, 1, 1, 0]])
        found = two_way_effects(variant - base)
        assert float(found.mean) == pytest.approx(2 / 12)
        np.testing.assert_allclose(found.seed_means, [1 / 4, 1 / 4, 0.0])


class TestRare:
    @pytest.mark.parametrize(("hits", "items", "share"), [(0, 100, 0.01), (3, 600, 0.01), (7, 50, 0.2)])
    def test_is_the_binomial_distribution(self, hits, items, share):
        assert float(at_most_probability(hits / items, share, items)) == pytest.approx(
            stats.binom.cdf(hits, items, share), rel=1e-9
        )

    def test_its_ends(self):
        assert float(at_most_probability(0.5, 1.0, 10)) == 0.0
        assert float(at_most_probability(1.0, 0.3, 10)) == 1.0

    def test_how_many_items_without_a_hit_are_enough(self):
        needed = items_needed(0.01, 0.05)
        assert needed == 299
        assert float(at_most_probability(0.0, 0.01, needed)) < 0.05 < float(at_most_probability(0.0, 0.01, needed - 1))


@pytest.mark.parametrize(("failed", "runs"), [(0, 8), (2, 8), (8, 8), (5, 19)])
def test_rates_have_exact_intervals(failed, runs):
    exact = stats.binomtest(failed, runs).proportion_ci(0.95, "exact")
    rate = Rate(failed, runs)
    assert (rate.low, rate.high) == pytest.approx((exact.low, exact.high), abs=1e-9)
    assert str(Rate(2, 8)) == "2 of 8 (3 to 65 %)"
