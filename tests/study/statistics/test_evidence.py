"""What one change is judged by: problems by seed, metrics, answers that never differ; sign flips, outliers, exact bounds."""

from __future__ import annotations

import itertools
import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from tests.refusals import refused

from glassformer.foundation.errors import ConfigError, UnknownName
from glassformer.foundation.metrics import ACCURACY, LOSS, Metric
from glassformer.study.planning.power import SeedsNeeded
from glassformer.study.statistics.evidence import (
    Analysis,
    Problem,
    Rate,
    Trials,
    correlation_of,
    gather,
    interval,
    outliers,
    sign_flip,
    upper_bound,
)
from glassformer.study.statistics.two_way import two_way_effects
from glassformer.study.statistics.verdict import Rules, decide

N, M = 6, 9


def trials(name: str = "base", seed: int = 0, **more: object) -> Trials:
    return Trials(name, np.random.default_rng(seed).normal(3.0, 0.1, (N, M)), **more)  # type: ignore[arg-type]


def test_a_metric_knows_which_way_is_better():
    assert LOSS.better(-0.1)
    assert not LOSS.better(0.1)
    assert ACCURACY.better(0.1)
    assert not ACCURACY.better(-0.1)
    assert not LOSS.better(0.0)
    assert not ACCURACY.better(0.0)


def test_an_unknown_metric_gets_the_nearest_name():
    with refused(UnknownName, "unknown-name", "accuracy"):
        Metric.named("acuracy")
    assert Metric.named("loss") is LOSS


def test_a_row_that_is_not_all_numbers_is_missing_unless_something_worse_is_known():
    values = np.ones((N, M))
    values[1, 3], values[4] = math.inf, math.nan
    assert Trials("a", values).all_problems() == {1: Problem.MISSING, 4: Problem.MISSING}
    flagged = Trials("a", values, {4: Problem.DIVERGED, 0: Problem.LEAK})
    assert list(flagged.all_problems().items()) == [(0, Problem.LEAK), (1, Problem.MISSING), (4, Problem.DIVERGED)]


def test_pairs_are_variant_minus_baseline():
    base, change = trials(), trials("change", 1)
    found = Analysis(LOSS, 0.01, tuple(range(N)), np.ones(M)).effects(base, change, 4)
    np.testing.assert_allclose(found.seed_means, (change.values[:4] - base.values[:4]).mean(axis=1))


def test_without_pairs_a_change_is_set_against_all_runs_of_the_baseline():
    base, change = trials(), trials("change", 1)
    analysis = Analysis(LOSS, 0.01, tuple(range(N)), np.ones(M), by_pairs=False)
    found = analysis.effects(base, change, 4)
    assert float(found.mean) == pytest.approx(change.values[:4].mean() - base.values.mean())
    evidence = gather(analysis, base, change, found, same_level=0.05, any_look_level=None, needed=SeedsNeeded(None))
    assert (evidence.base_runs, evidence.flips, evidence.correlation) == (N, None, None)
    assert evidence.to_dict()["design"] == "bank"


def test_a_leak_or_a_lost_file_is_not_instability():
    problems = {0: Problem.DIVERGED, 1: Problem.LEAK, 2: Problem.MISSING, 3: Problem.COLLAPSED}
    assert trials(problems=problems).unstable() == 2
    assert trials(problems=problems).all_problems(2) == {0: Problem.DIVERGED, 1: Problem.LEAK}


def test_another_set_of_documents_is_refused():
    with refused(ConfigError, "other-documents", "change", "4 documents", "base on 9"):
        Analysis(LOSS, 0.01, tuple(range(N)), np.ones(M)).effects(trials(), Trials("change", np.ones((N, 4))), N)


class TestAnswersThatNeverDiffer:
    found = two_way_effects(np.zeros((N, 300)))

    def test_are_not_proof_of_sameness_beyond_the_number_of_items(self):
        assert float(self.found.p_same(0.01, answers=True)) == pytest.approx(0.99**300)
        assert float(self.found.p_same(0.01)) == 0.0

    def test_leave_a_rate_possible(self):
        bound = interval(self.found, 0.95, ACCURACY)
        assert (bound.low, bound.high) == pytest.approx((-(1 - 0.025 ** (1 / 300)), 1 - 0.025 ** (1 / 300)))
        assert interval(self.found, 0.95, LOSS).high == 0.0

    def test_a_few_that_are_always_lost_leave_more_possible_than_their_variance_says(self):
        d = np.zeros((N, 300))
        d[:, :2] = -1.0
        found = two_way_effects(d)
        bound = interval(found, 0.95, ACCURACY)
        assert bound.low == pytest.approx(-stats.beta.ppf(0.975, 3, 298))
        assert bound.low < found.estimate(0.95).low
        assert bound.high == found.estimate(0.95).high


class TestAnswersThatAreAllWon:
    @pytest.mark.parametrize(("items", "word"), [(3, "not decided"), (5, "not decided"), (6, "better"), (50, "better")])
    def test_few_of_them_are_no_proof(self, items, word):
        base, change = Trials("base", np.zeros((8, items))), Trials("change", np.ones((8, items)))
        found = decide(base, [change], Rules((8,), ACCURACY))[0]
        assert found.verdict == word
        assert found.evidence.p == pytest.approx(2 * 0.5**items)

    def test_leave_it_possible_that_some_are_lost(self):
        bound = interval(two_way_effects(np.ones((N, 50))), 0.95, ACCURACY)
        assert (bound.low, bound.high) == pytest.approx((1 - 2 * (1 - 0.025 ** (1 / 50)), 1.0))
        bound = interval(two_way_effects(-np.ones((N, 50))), 0.95, ACCURACY)
        assert (bound.low, bound.high) == pytest.approx((-1.0, 2 * (1 - 0.025 ** (1 / 50)) - 1))

    def test_the_same_through_a_whole_verdict(self):
        found = decide(Trials("base", np.zeros((8, 50))), [Trials("change", np.ones((8, 50)))], Rules((8,), ACCURACY))[0]
        assert found.difference.low == pytest.approx(1 - 2 * (1 - 0.025 ** (1 / 50)))
        few = decide(Trials("base", np.zeros((8, 3))), [Trials("change", np.ones((8, 3)))], Rules((8,), ACCURACY))[0]
        assert "Too few documents: more text is needed, not more seeds." in few.sentence

    def test_no_interval_goes_beyond_one(self):
        """Won by nearly every item, with seeds that differ: by t alone the interval reaches beyond 1."""
        base, change = Trials("base", np.zeros((8, 50))), np.ones((8, 50))
        change[0, :20] = 0.0
        found = decide(base, [Trials("change", change)], Rules((8,), ACCURACY))[0].evidence
        t = two_way_effects(change).estimate(0.95)
        assert t.high > 1.0
        assert found.difference.high == found.on_this_set.high == found.same_interval.high == 1.0
        assert found.half_width == pytest.approx(0.5 * (t.high - found.difference.low), rel=0.2)
        lost = decide(Trials("base", change), [Trials("change", base.values)], Rules((8,), ACCURACY))[0]
        assert lost.difference.low == -1.0
        assert decide(base, [Trials("change", change)], Rules((8,), LOSS))[0].difference.high == pytest.approx(t.high)

    def test_nothing_changes_for_many_that_differ(self):
        rng = np.random.default_rng(0)
        effects = two_way_effects(rng.choice([-1.0, 0.0, 1.0], p=[0.1, 0.7, 0.2], size=(N, 300)))
        analysis = Analysis(ACCURACY, 0.01, tuple(range(N)), np.ones(300))
        assert float(analysis.p(effects)) == float(effects.p)
        t = effects.estimate(0.95)
        assert interval(effects, 0.95, ACCURACY).low == pytest.approx(t.low, abs=0.01)


def test_gathered_numbers_by_hand():
    tokens = np.arange(1.0, M + 1)
    base, change = trials(), trials("change", 1)
    analysis = Analysis(LOSS, 0.01, (10, 11, 12, 13, 14, 15), tokens)
    found = analysis.effects(base, change, 5)
    evidence = gather(analysis, base, change, found, same_level=0.02, any_look_level=0.007, needed=SeedsNeeded(12, 8, 30))
    weights = tokens / tokens.sum()
    means = (change.values - base.values)[:5] @ weights
    assert evidence.seed_differences == pytest.approx(tuple(means))
    assert evidence.difference.value == pytest.approx(means.mean())
    assert evidence.seeds == 5
    assert evidence.seed_labels == (10, 11, 12, 13, 14)
    assert evidence.seeds_better == (means < 0).sum()
    assert evidence.noise_floor == pytest.approx((base.values[:5] @ weights).std(ddof=1))
    assert evidence.correlation == pytest.approx(np.corrcoef(base.values[:5] @ weights, change.values[:5] @ weights)[0, 1])
    assert evidence.same_interval.high - means.mean() == pytest.approx(float(found.half_width(0.96)))
    assert evidence.any_look is not None
    assert evidence.any_look.high - means.mean() == pytest.approx(float(found.half_width(0.993)))
    assert evidence.p == max(evidence.p_seed, evidence.p_crossed)
    plain = evidence.to_dict()
    assert list(plain)[:5] == ["difference", "p", "p_corrected", "seeds", "seeds_needed"]
    assert plain["seeds_needed"] == {"value": 12, "low": 8, "high": 30}
    assert json.loads(json.dumps(plain, allow_nan=False)) == plain


def test_a_far_off_run_is_named_by_its_seed():
    base, change = trials(), trials("change", 1)
    change.values[2] += 4.0
    analysis = Analysis(LOSS, 0.01, (20, 21, 22, 23, 24, 25), np.ones(M))
    found = analysis.effects(base, change, N)
    evidence = gather(analysis, base, change, found, same_level=0.05, any_look_level=None, needed=SeedsNeeded(None))
    assert evidence.far_off_seeds == (22,)
    assert evidence.any_look is None


def test_eight_runs_without_failure_leave_31_per_cent_possible():
    assert upper_bound(0, 8) == pytest.approx(1 - 0.05 ** (1 / 8))
    assert round(100 * upper_bound(0, 8)) == 31
    assert upper_bound(8, 8) == 1.0
    assert upper_bound(2, 8) == pytest.approx(
        stats.binomtest(2, 8, alternative="less").proportion_ci(0.95, method="exact").high
    )


@pytest.mark.parametrize(("failed", "runs"), [(0, 8), (2, 8), (8, 8), (5, 19)])
def test_rates_have_exact_intervals(failed, runs):
    exact = stats.binomtest(failed, runs).proportion_ci(0.95, "exact")
    rate = Rate(failed, runs)
    assert (rate.low, rate.high) == pytest.approx((exact.low, exact.high), abs=1e-9)


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
