"""The crossed analysis by hand, against a slow reference, and by its laws; two arms without pairs; blocks of one text."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats

from glassformer.evaluation.interval_estimates import SLOW_WAVES
from glassformer.study.statistics.two_way import by_group, two_way_effects

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
    left_out = [one / (1 - one) for one in w]
    b = (m - 1) / m * sum(left_out[i] ** 2 * (document[i] - mean) ** 2 for i in range(m))
    e = 0.0
    for i in range(m):
        for s in range(n):
            e += (m - 1) / m * left_out[i] ** 2 * (d[s][i] - seed[s] - document[i] + mean) ** 2 / (n * (n - 1))
    v = max(a + b - e, a, b)
    effective = 1 / sum(one**2 for one in w)
    df = v**2 / (a**2 / (n - 1) + b**2 / (effective - 1) + e**2 / ((n - 1) * (effective - 1)))
    return mean, a, b, e, v, df


def some_differences(seed: int = 0, n: int = N, m: int = M) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return 0.3 + rng.normal(size=(n, 1)) + rng.normal(size=m) + rng.normal(size=(n, m))


class TestCrossed:
    def test_by_hand_with_equal_documents(self):
        found = two_way_effects(HAND)
        assert found.mean == 4.5
        assert found.from_seeds == pytest.approx(2.25)  # seed means 3 and 6: SA = 4.5, n = 2
        assert found.from_documents == pytest.approx(12.25 / 3)  # document means 2, 3, 8.5: SB = 24.5 / 2, m = 3
        assert found.from_residual == pytest.approx(0.25)  # residuals .5, .5, -1 and their negatives: SE = 3 / 2, nm = 6
        assert found.variance == pytest.approx(2.25 + 12.25 / 3 - 0.25)
        assert found.df == pytest.approx(37.006944 / 13.430556, rel=1e-6)
        assert found.effective_documents == pytest.approx(3.0)
        assert found.document_share == pytest.approx((12.25 / 3 - 0.25) / (12.25 / 3 - 0.25 + 2.25))

    def test_by_hand_with_tokens(self):
        found = two_way_effects(HAND, [10, 10, 20])
        assert found.mean == pytest.approx(5.5)  # seed means 3.75 and 7.25
        assert found.from_seeds == pytest.approx(3.0625)
        # left out in turn: weights 1/3, 1/3 and 1 of the distances -3.5, -2.5 and 3; every cell is 0.75 off
        assert found.from_documents == pytest.approx(2 / 3 * ((12.25 + 6.25) / 9 + 9))
        assert found.from_residual == pytest.approx(2 / 3 * (11 / 9) * 1.125 / 2)
        assert found.effective_documents == pytest.approx(1 / 0.375)

    @pytest.mark.parametrize("seed", range(20))
    def test_equals_the_slow_reference(self, seed):
        d, w = some_differences(seed), np.random.default_rng(seed + 100).integers(1, 50, M)
        found = two_way_effects(d, w)
        mine = (found.mean, found.from_seeds, found.from_documents, found.from_residual, found.variance, found.df)
        np.testing.assert_allclose([float(one) for one in mine], reference(d.tolist(), w.tolist()), rtol=1e-12)

    def test_equal_weights_are_the_textbook_mean_squares(self):
        d = some_differences(3)
        rest = d - d.mean(1, keepdims=True) - d.mean(0) + d.mean()
        found = two_way_effects(d, np.full(M, 17.0))
        assert found.from_documents == pytest.approx(d.mean(0).var(ddof=1) / M)
        assert found.from_residual == pytest.approx((rest**2).sum() / ((N - 1) * (M - 1)) / (N * M))

    def test_the_variance_never_falls_below_its_parts(self):
        d = np.array([[1.0, -1.0, 1.0], [-1.0, 1.0, -1.0]])  # all residual: SA and SB are small, SE large
        found = two_way_effects(d)
        assert found.variance == max(found.from_seeds, found.from_documents)
        assert found.document_share == 0.0

    def test_p_and_intervals_are_those_of_scipy(self):
        d, w = some_differences(4), np.array([3.0, 1, 4, 1, 5, 9, 2])
        found = two_way_effects(d, w)
        seed = stats.ttest_1samp(d @ (w / w.sum()), 0.0)
        low, high = seed.confidence_interval(0.9)
        assert found.estimate(0.9, on_this_set=True).half_width == pytest.approx((high - low) / 2, rel=1e-10)
        mean, *_, v, df = reference(d.tolist(), w.tolist())
        assert found.p == pytest.approx(max(seed.pvalue, 2 * stats.t.sf(abs(mean) / math.sqrt(v), df)), rel=1e-10)
        wider = max((high - low) / 2, stats.t.isf(0.05, df) * math.sqrt(v))
        assert found.estimate(0.9).half_width == pytest.approx(wider, rel=1e-10)

    def test_same_exactly_when_the_wider_90_per_cent_interval_lies_within_the_margin(self):
        for seed in range(30):
            found = two_way_effects(some_differences(seed))
            reach = abs(found.mean) + found.estimate(0.9).half_width
            assert float(found.p_same(reach * 1.0001)) < 0.05 < float(found.p_same(reach * 0.9999))

    def test_beyond_the_margin_p_same_is_above_one_half(self):
        assert float(two_way_effects(some_differences(1) + 50.0).p_same(0.1)) > 0.5

    def test_a_document_without_tokens_is_left_out(self):
        d = some_differences(5)
        d[:, 2] = np.nan
        w = np.array([3.0, 1, 0, 1, 5, 9, 2])
        kept = w > 0
        assert float(two_way_effects(d, w).variance) == float(two_way_effects(d[:, kept], w[kept]).variance)
        assert two_way_effects(d, w).documents == M - 1

    def test_one_document_says_nothing_of_others(self):
        found = two_way_effects(some_differences(6, m=1))
        assert found.p == 1.0
        assert found.estimate().low is None
        assert found.estimate(on_this_set=True).low is not None
        assert found.document_share == 1.0

    def test_one_seed_says_nothing(self):
        found = two_way_effects(some_differences(6, n=1))
        assert found.p == 1.0
        assert found.estimate().low is None
        assert found.estimate().n == 1

    def test_no_difference_at_all_and_a_difference_without_noise(self):
        nothing, constant = two_way_effects(np.zeros((N, M))), two_way_effects(np.full((N, M), 0.25))
        assert nothing.p == 1.0
        assert nothing.estimate().half_width == 0.0
        assert float(nothing.p_same(0.01)) == 0.0
        assert constant.p < 1e-50
        assert float(constant.p_same(0.01)) > 1 - 1e-12

    @settings(max_examples=60)
    @given(arrays(float, (N, M), elements=st.floats(-5, 5, width=32)), st.permutations(range(N)), st.permutations(range(M)))
    def test_the_order_of_seeds_and_documents_does_not_matter(self, d, seeds, documents):
        d = d + some_differences(0)
        w = np.array([3.0, 1, 4, 1, 5, 9, 2])
        one, other = two_way_effects(d, w), two_way_effects(d[seeds][:, documents], w[documents])
        for name in ("mean", "variance", "p", "from_seeds"):
            assert float(getattr(one, name)) == pytest.approx(float(getattr(other, name)), rel=1e-9, abs=1e-12)

    @settings(max_examples=60)
    @given(arrays(float, (N, M), elements=st.floats(-5, 5, width=32)), st.floats(0.01, 100))
    def test_sign_and_unit_do_not_matter(self, d, factor):
        d = d + some_differences(0)
        one, flipped, scaled = two_way_effects(d), two_way_effects(-d), two_way_effects(d * factor)
        assert one.mean == -flipped.mean
        assert one.p == pytest.approx(flipped.p, rel=1e-9)
        assert one.p == pytest.approx(scaled.p, rel=1e-6, abs=1e-12)
        assert one.estimate().half_width * factor == pytest.approx(scaled.estimate().half_width, rel=1e-6)
        assert one.variance >= max(one.from_seeds, one.from_documents)

    def test_the_luck_of_tuning_widens_the_interval_and_adds_no_certainty(self):
        found = two_way_effects(some_differences(4))
        wider = two_way_effects(some_differences(4), tuning_variance=found.from_seeds)
        assert wider.from_seeds == pytest.approx(2 * found.from_seeds)
        assert wider.seed_df == pytest.approx(N - 1)
        assert wider.p > found.p


class TestBeyondTheMargin:
    def test_is_below_5_per_cent_exactly_where_the_interval_lies_beyond(self):
        found = two_way_effects(some_differences(2) + 30.0)
        nearest = abs(found.mean) - found.estimate(0.95).half_width
        assert float(found.p_beyond(nearest * 0.9999)) < 0.05 < float(found.p_beyond(nearest * 1.0001))

    def test_a_difference_inside_the_margin_is_not_beyond_it(self):
        assert float(two_way_effects(some_differences(2)).p_beyond(100.0)) == 1.0


class TestMissed:
    def test_hundred_equal_answers_do_not_exclude_one_per_cent(self):
        nothing = two_way_effects(np.zeros((8, 100)))
        assert two_way_effects(np.zeros((8, 100)), answers=True).p_same(0.01) == pytest.approx(0.99**100)
        assert float(nothing.p_same(0.01)) == 0.0  # losses that agree to the last bit are the same model

    def test_lost_answers_are_counted(self):
        d = np.zeros((8, 600))
        d[:, :2] = -1.0
        assert two_way_effects(d, answers=True).p_same(0.01) == pytest.approx(stats.binom.cdf(2, 600, 0.01))


class TestBlocks:
    def test_independent_blocks_have_the_ordinary_variance_times_that_of_slow_waves_on_average(self):
        d = np.random.default_rng(1).normal(size=(3000, 2, 50))
        by_blocks = np.mean([two_way_effects(one, blocks=True).from_documents for one in d])
        assert by_blocks == pytest.approx(SLOW_WAVES * np.mean([two_way_effects(one).from_documents for one in d]), rel=0.05)

    def test_a_slow_wave_along_the_text_counts(self):
        wave = np.broadcast_to(np.cos(np.pi * (np.arange(60) + 0.5) / 60), (4, 60))
        shuffled = np.random.default_rng(2).permutation(wave, axis=1)
        assert float(two_way_effects(wave, blocks=True).from_documents) > 5 * float(
            two_way_effects(shuffled, blocks=True).from_documents
        )
        assert float(two_way_effects(wave).from_documents) == pytest.approx(float(two_way_effects(shuffled).from_documents))

    def test_degrees_of_freedom_are_the_waves(self):
        blocks_alone = np.tile(np.random.default_rng(0).normal(size=1000), (3, 1))  # every seed alike
        assert two_way_effects(blocks_alone, blocks=True).df == pytest.approx(17)
        assert two_way_effects(blocks_alone[:, :2], blocks=True).df == pytest.approx(1)


class TestUnpaired:
    def test_is_welch_where_documents_agree(self):
        rng = np.random.default_rng(3)
        change, base = rng.normal(0.5, 2.0, (6, 1)), rng.normal(0.0, 1.0, (32, 1))
        found = two_way_effects(np.repeat(change, 9, axis=1), base=np.repeat(base, 9, axis=1))
        expected = stats.ttest_ind(change[:, 0], base[:, 0], equal_var=False)
        assert found.p == pytest.approx(expected.pvalue, rel=1e-9)
        assert found.seed_df == pytest.approx(expected.df, rel=1e-9)
        assert found.mean == pytest.approx(change.mean() - base.mean())

    def test_its_parts_by_hand(self):
        change, base = some_differences(1, 4, M), some_differences(2, 9, M)
        found, own, other = two_way_effects(change, base=base), two_way_effects(change), two_way_effects(base)
        assert found.from_seeds == pytest.approx(float(own.from_seeds + other.from_seeds))
        assert found.from_residual == pytest.approx(float(own.from_residual + other.from_residual))
        gap = change.mean(axis=0) - base.mean(axis=0)
        assert found.from_documents == pytest.approx(gap.var(ddof=1) / M)


def test_a_document_without_tokens_is_left_out():
    d = np.arange(6.0).reshape(2, 3) ** 2
    assert float(two_way_effects(d, [3, 0, 1]).variance) == float(two_way_effects(d[:, [0, 2]], [3, 1]).variance)
    assert two_way_effects(d, [3, 0, 1]).effective_documents == pytest.approx(1 / (0.75**2 + 0.25**2))


def test_the_jackknife_is_that_of_the_means_without_each_document():
    values, tokens = np.array([1.0, 4.0, 2.0, 7.0]), np.array([3.0, 1.0, 5.0, 2.0])
    whole = values @ tokens / tokens.sum()
    without = [np.delete(values, i) @ np.delete(tokens, i) / np.delete(tokens, i).sum() for i in range(4)]
    expected = 3 / 4 * sum((one - whole) ** 2 for one in without)
    assert two_way_effects(np.stack([values, values]), tokens).from_documents == pytest.approx(expected)


def test_answers_of_several_seeds_go_through_the_crossed_analysis():
    base = np.array([[1, 0, 1, 1], [1, 0, 0, 1], [1, 1, 0, 1]])
    variant = np.array([[1, 1, 1, 1], [1, 1, 0, 1], [1, 1, 1, 0]])
    found = two_way_effects(variant - base)
    assert found.mean == pytest.approx(2 / 12)
    np.testing.assert_allclose(found.seed_means, [1 / 4, 1 / 4, 0.0])


def test_documents_of_one_group_are_one_unit():
    d, tokens = some_differences(4, N, 6), np.array([1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
    groups = ["ann", "bob", "ann", "bob", "bob", "cy"]
    values = by_group(d, tokens, groups)
    np.testing.assert_allclose(values[:, 0], (d[:, 0] + 3 * d[:, 2]) / 4)
    np.testing.assert_allclose(values[:, 2], d[:, 5])
    found, by_hand = two_way_effects(d, tokens, groups=groups), two_way_effects(values, [4.0, 11.0, 6.0])
    assert found.mean == pytest.approx(two_way_effects(d, tokens).mean)
    assert found.variance == pytest.approx(by_hand.variance)
    assert found.documents == 3
