"""The crossed analysis by hand, against a slow reference, and by its laws; counts of answers against scipy."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats

from glassformer.study.statistics import (
    correlation_of,
    crossed,
    failures_not_excluded,
    far_off,
    holm,
    mcnemar_mid_p,
    sign_flip,
    wilson,
    without_each_seed,
)

HAND = np.array([[1.0, 2.0, 6.0], [3.0, 4.0, 11.0]])
N, M = 5, 7


def reference(d, w):
    """SA/n, SB/m, SE/(nm), V and df as the rule is written, one term after the other."""
    n, m = len(d), len(d[0])
    w = [one / sum(w) for one in w]
    seed = [sum(w[i] * d[s][i] for i in range(m)) for s in range(n)]
    document = [sum(d[s][i] for s in range(n)) / n for i in range(m)]
    mean = sum(seed) / n
    a = sum((one - mean) ** 2 for one in seed) / (n - 1) / n
    b = m / (m - 1) * sum(w[i] ** 2 * (document[i] - mean) ** 2 for i in range(m))
    e = 0.0
    for i in range(m):
        for s in range(n):
            e += m / (m - 1) * w[i] ** 2 * (d[s][i] - seed[s] - document[i] + mean) ** 2 / (n * (n - 1))
    v = max(a + b - e, a, b)
    effective = 1 / sum(one**2 for one in w)
    df = v**2 / (a**2 / (n - 1) + b**2 / (effective - 1) + e**2 / ((n - 1) * (effective - 1)))
    return mean, a, b, e, v, df


def some_differences(seed: int = 0, n: int = N, m: int = M) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return 0.3 + rng.normal(size=(n, 1)) + rng.normal(size=m) + rng.normal(size=(n, m))


class TestCrossed:
    def test_by_hand_with_equal_documents(self):
        found = crossed(HAND)
        assert float(found.mean) == 4.5
        assert float(found.from_seeds) == pytest.approx(2.25)  # seed means 3 and 6: SA = 4.5, n = 2
        assert float(found.from_documents) == pytest.approx(12.25 / 3)  # document means 2, 3, 8.5: SB = 24.5 / 2, m = 3
        assert float(found.from_rest) == pytest.approx(0.25)  # residuals .5, .5, -1 and their negatives: SE = 3 / 2, nm = 6
        assert float(found.variance) == pytest.approx(2.25 + 12.25 / 3 - 0.25)
        assert float(found.df) == pytest.approx(37.006944 / 13.430556, rel=1e-6)
        assert found.effective_documents == pytest.approx(3.0)
        assert float(found.document_share) == pytest.approx((12.25 / 3 - 0.25) / (12.25 / 3 - 0.25 + 2.25))

    def test_by_hand_with_tokens(self):
        found = crossed(HAND, [10, 10, 20])
        assert float(found.mean) == pytest.approx(5.5)  # seed means 3.75 and 7.25
        assert float(found.from_seeds) == pytest.approx(3.0625)
        assert float(found.from_documents) == pytest.approx(1.5 * 3.40625)
        assert float(found.from_rest) == pytest.approx(1.5 * 0.375 * 1.125 / 2)
        assert found.effective_documents == pytest.approx(1 / 0.375)

    @pytest.mark.parametrize("seed", range(20))
    def test_equals_the_slow_reference(self, seed):
        d, w = some_differences(seed), np.random.default_rng(seed + 100).integers(1, 50, M)
        found = crossed(d, w)
        mine = (found.mean, found.from_seeds, found.from_documents, found.from_rest, found.variance, found.df)
        np.testing.assert_allclose([float(one) for one in mine], reference(d.tolist(), w.tolist()), rtol=1e-12)

    def test_equal_weights_are_the_textbook_mean_squares(self):
        d = some_differences(3)
        rest = d - d.mean(1, keepdims=True) - d.mean(0) + d.mean()
        found = crossed(d, np.full(M, 17.0))
        assert float(found.from_documents) == pytest.approx(d.mean(0).var(ddof=1) / M)
        assert float(found.from_rest) == pytest.approx((rest**2).sum() / ((N - 1) * (M - 1)) / (N * M))

    def test_the_variance_never_falls_below_its_parts(self):
        d = np.array([[1.0, -1.0, 1.0], [-1.0, 1.0, -1.0]])  # all residual: SA and SB are small, SE large
        found = crossed(d)
        assert float(found.variance) == max(float(found.from_seeds), float(found.from_documents))
        assert float(found.document_share) == 0.0

    def test_p_and_intervals_are_those_of_scipy(self):
        d, w = some_differences(4), np.array([3.0, 1, 4, 1, 5, 9, 2])
        found = crossed(d, w)
        seed = stats.ttest_1samp(d @ (w / w.sum()), 0.0)
        assert float(found.p_seed) == pytest.approx(seed.pvalue, rel=1e-10)
        low, high = seed.confidence_interval(0.9)
        assert float(found.seed_half_width(0.9)) == pytest.approx((high - low) / 2, rel=1e-10)
        mean, *_, v, df = reference(d.tolist(), w.tolist())
        assert float(found.p_crossed) == pytest.approx(2 * stats.t.sf(abs(mean) / math.sqrt(v), df), rel=1e-10)
        wider = max((high - low) / 2, stats.t.isf(0.05, df) * math.sqrt(v))
        assert float(found.half_width(0.9)) == pytest.approx(wider, rel=1e-10)
        assert float(found.p) == max(float(found.p_seed), float(found.p_crossed))

    def test_same_exactly_when_the_wider_90_per_cent_interval_lies_within_the_margin(self):
        for seed in range(30):
            found = crossed(some_differences(seed))
            reach = float(np.abs(found.mean) + found.half_width(0.9))
            assert float(found.p_same(reach * 1.0001)) < 0.05 < float(found.p_same(reach * 0.9999))

    def test_beyond_the_margin_p_same_is_above_one_half(self):
        assert float(crossed(some_differences(1) + 50.0).p_same(0.1)) > 0.5

    def test_many_studies_at_once_are_the_studies_one_by_one(self):
        many = np.stack([[some_differences(3 * i + j) for j in range(3)] for i in range(2)])
        together = crossed(many)
        for i, j in itertools.product(range(2), range(3)):
            alone = crossed(many[i, j])
            for name in ("mean", "variance", "df", "p", "document_share"):
                assert float(getattr(together, name)[i, j]) == pytest.approx(float(getattr(alone, name)), rel=1e-12)
            assert float(together.half_width()[i, j]) == pytest.approx(float(alone.half_width()), rel=1e-12)

    def test_a_document_without_tokens_is_left_out(self):
        d = some_differences(5)
        d[:, 2] = np.nan
        w = np.array([3.0, 1, 0, 1, 5, 9, 2])
        kept = w > 0
        assert float(crossed(d, w).variance) == float(crossed(d[:, kept], w[kept]).variance)
        assert crossed(d, w).documents == M - 1

    def test_one_document_says_nothing_of_others(self):
        found = crossed(some_differences(6, m=1))
        assert float(found.p_crossed) == 1.0
        assert float(found.p_seed) < 1.0
        assert found.estimate().low is None
        assert found.estimate(on_this_set=True).low is not None
        assert float(found.document_share) == 1.0

    def test_one_seed_says_nothing(self):
        found = crossed(some_differences(6, n=1))
        assert float(found.p) == 1.0
        assert found.estimate().low is None
        assert found.estimate().n == 1

    def test_no_difference_at_all_and_a_difference_without_noise(self):
        nothing, constant = crossed(np.zeros((N, M))), crossed(np.full((N, M), 0.25))
        assert float(nothing.p) == 1.0
        assert float(nothing.half_width()) == 0.0
        assert float(nothing.p_same(0.01)) == 0.0
        assert float(constant.p) < 1e-50
        assert float(constant.p_same(0.01)) > 1 - 1e-12

    @settings(max_examples=60)
    @given(arrays(float, (N, M), elements=st.floats(-5, 5, width=32)), st.permutations(range(N)), st.permutations(range(M)))
    def test_the_order_of_seeds_and_documents_does_not_matter(self, d, seeds, documents):
        d = d + some_differences(0)
        w = np.array([3.0, 1, 4, 1, 5, 9, 2])
        one, other = crossed(d, w), crossed(d[seeds][:, documents], w[documents])
        for name in ("mean", "variance", "p", "p_seed"):
            assert float(getattr(one, name)) == pytest.approx(float(getattr(other, name)), rel=1e-9, abs=1e-12)

    @settings(max_examples=60)
    @given(arrays(float, (N, M), elements=st.floats(-5, 5, width=32)), st.floats(0.01, 100))
    def test_sign_and_unit_do_not_matter(self, d, factor):
        d = d + some_differences(0)
        one, flipped, scaled = crossed(d), crossed(-d), crossed(d * factor)
        assert float(one.mean) == -float(flipped.mean)
        assert float(one.p) == pytest.approx(float(flipped.p), rel=1e-9)
        assert float(one.p) == pytest.approx(float(scaled.p), rel=1e-6, abs=1e-12)
        assert float(one.half_width()) * factor == pytest.approx(float(scaled.half_width()), rel=1e-6)
        assert float(one.variance) >= max(float(one.from_seeds), float(one.from_documents))

    def test_without_each_seed(self):
        d, w = some_differences(8), np.arange(1, M + 1)
        without = without_each_seed(d, w)
        assert without.seeds == N - 1
        assert without.mean.shape == (N,)
        assert float(without.p[2]) == pytest.approx(float(crossed(np.delete(d, 2, axis=0), w).p), rel=1e-12)


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
        assert far_off([0.01, 0.02, 0.0, -0.01, 0.015, 0.9]) == [5]

    def test_names_two(self):
        assert far_off([0.01, 0.02, 0.0, -0.01, 0.015, 0.9, 0.005, -3.0]) == [5, 7]

    def test_is_silent_about_ordinary_noise_in_19_of_20_studies(self):
        rng = np.random.default_rng(0)
        named = sum(bool(far_off(rng.normal(size=8))) for _ in range(400))
        assert 0.05 * 400 - 3 * 4.4 <= named <= 0.05 * 400 + 3 * 4.4

    def test_equal_runs_and_too_few_runs(self):
        assert far_off([1.0, 1.0, 1.0, 1.0, 1.0]) == []
        assert far_off([0.0, 0.0, 9.0]) == []


class TestAnswers:
    def test_eight_runs_without_failure_leave_31_per_cent_possible(self):
        assert failures_not_excluded(0, 8) == pytest.approx(1 - 0.05 ** (1 / 8))
        assert round(100 * failures_not_excluded(0, 8)) == 31
        assert failures_not_excluded(8, 8) == 1.0
        assert failures_not_excluded(2, 8) == pytest.approx(
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
        found = crossed(variant - base)
        assert float(found.mean) == pytest.approx(2 / 12)
        np.testing.assert_allclose(found.seed_means, [1 / 4, 1 / 4, 0.0])

    def test_correlation(self):
        rng = np.random.default_rng(3)
        a, b = rng.normal(size=9), rng.normal(size=9)
        assert correlation_of(a, b) == pytest.approx(np.corrcoef(a, b)[0, 1])
        assert correlation_of([1.0, 2.0], [3.0, 4.0]) is None
        assert correlation_of([1.0, 1.0, 1.0], [3.0, 4.0, 5.0]) is None
