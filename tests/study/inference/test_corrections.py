"""Holm, sign flips, runs that lie far off, correlation: by hand and by their laws."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from glassformer.study.inference.corrections import correlation_of, holm, outliers, sign_flip


class TestHolm:
    def test_by_hand(self):
        np.testing.assert_allclose(holm([0.01, 0.04, 0.03, 0.005]), [0.03, 0.06, 0.06, 0.02])

    def test_never_above_one(self):
        np.testing.assert_allclose(holm([0.5, 0.6, 0.9]), [1.0, 1.0, 1.0])

    @given(st.lists(st.floats(0, 1), min_size=1, max_size=6), st.randoms())
    def test_laws(self, p, random):
        order = list(range(len(p)))
        random.shuffle(order)
        corrected = holm(p)
        assert np.all(corrected >= np.array(p))
        assert np.all(corrected <= np.minimum(1.0, np.array(p) * len(p) + 1e-15))
        np.testing.assert_array_equal(holm([p[i] for i in order]), corrected[order])
        np.testing.assert_array_equal(holm(np.stack([p, p]))[1], corrected)


class TestSignFlip:
    def test_by_hand(self):
        # |+-1 +-2 +-3|: only +++ and --- reach 6
        assert sign_flip([1.0, 2.0, 3.0]).p == 2 / 8
        # with one sign against it the sum is 4, reached or passed by +++, -++ and their negatives
        assert sign_flip([-1.0, 2.0, 3.0]).p == 4 / 8
        assert sign_flip([1.0, 2.0, 3.0]).floor == 2 / 8

    def test_no_difference_and_one_seed(self):
        assert sign_flip([0.0, 0.0, 0.0]).p == 1.0
        assert sign_flip([0.7]).p == 1.0
        assert sign_flip([0.7]).floor == 1.0

    @given(st.lists(st.integers(-20, 20), min_size=2, max_size=9))
    def test_is_the_share_of_all_flips_and_symmetric(self, values):
        sums = [abs(sum(s * v for s, v in zip(signs, values))) for signs in itertools.product((1, -1), repeat=len(values))]
        expected = sum(one >= abs(sum(values)) for one in sums) / len(sums)
        tenths = [value / 10 for value in values]  # not exact in binary: equal sums must still count as equal
        assert sign_flip(tenths).p == expected == sign_flip([-one for one in tenths]).p
        assert sign_flip(tenths).p >= sign_flip(tenths).floor

    def test_forty_seeds_exactly_and_more_by_drawing(self):
        rng = np.random.default_rng(2)
        exact, drawn = sign_flip(rng.normal(0.25, 1, 40)), sign_flip(np.random.default_rng(2).normal(0.25, 1, 41))
        assert exact.floor == 2 / 2**40
        # the t test is a good approximation for this many seeds
        assert exact.p == pytest.approx(stats.ttest_1samp(np.random.default_rng(2).normal(0.25, 1, 40), 0).pvalue, abs=0.02)
        assert drawn.p == pytest.approx(stats.ttest_1samp(np.random.default_rng(2).normal(0.25, 1, 41), 0).pvalue, abs=0.02)


class TestFarOff:
    def test_names_the_run_that_lies_apart(self):
        assert outliers([0.01, 0.02, 0.0, -0.01, 0.015, 0.9]) == [5]

    def test_names_two(self):
        assert outliers([0.01, 0.02, 0.0, -0.01, 0.015, 0.9, 0.005, -3.0]) == [5, 7]

    def test_is_silent_about_ordinary_noise_in_19_of_20_studies(self):
        rng = np.random.default_rng(0)
        named = sum(bool(outliers(rng.normal(size=8))) for _ in range(400))
        assert 0.05 * 400 - 3 * 4.4 <= named <= 0.05 * 400 + 3 * 4.4

    def test_equal_runs_and_too_few_runs(self):
        assert outliers([1.0, 1.0, 1.0, 1.0, 1.0]) == []
        assert outliers([0.0, 0.0, 9.0]) == []


def test_correlation():
    rng = np.random.default_rng(3)
    a, b = rng.normal(size=9), rng.normal(size=9)
    assert correlation_of(a, b) == pytest.approx(np.corrcoef(a, b)[0, 1])
    assert correlation_of([1.0, 2.0], [3.0, 4.0]) is None
    assert correlation_of([1.0, 1.0, 1.0], [3.0, 4.0, 5.0]) is None
