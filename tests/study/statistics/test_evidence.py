"""What one change is judged by: problems by seed, metrics, answers that never differ; outliers, bounds, what was missed."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from scipy import stats
from tests.refusals import refused

from glassformer.foundation.errors import ConfigError, UnknownName
from glassformer.foundation.metrics import ACCURACY, LOSS, Metric
from glassformer.study.statistics.evidence import (
    Problem,
    Rate,
    Trials,
    long_and_short,
    outliers,
)
from glassformer.study.statistics.two_way import two_way_effects, upper_bound
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


def judged(base: Trials, change: Trials, **more):
    return decide(base, [change], Rules((change.seeds,), LOSS, by_pairs=more.pop("by_pairs", True)), **more)[0].evidence


def test_pairs_are_variant_minus_baseline():
    base, change = trials(), trials("change", 1)
    assert judged(base, change).seed_differences == pytest.approx(tuple((change.values - base.values).mean(axis=1)))


def test_without_pairs_a_change_is_set_against_all_runs_of_the_baseline():
    base, change = trials(), Trials("change", trials("change", 1).values[:4])
    evidence = judged(base, change, by_pairs=False)
    assert evidence.difference.value == pytest.approx(change.values.mean() - base.values.mean())
    assert evidence.base_runs == N
    assert evidence.to_dict()["design"] == "bank"


def test_a_leak_or_a_lost_file_is_not_instability():
    problems = {0: Problem.DIVERGED, 1: Problem.LEAK, 2: Problem.MISSING, 3: Problem.COLLAPSED}
    assert trials(problems=problems).unstable() == [0, 3]
    assert trials(problems=problems).all_problems(2) == {0: Problem.DIVERGED, 1: Problem.LEAK}


def test_another_set_of_documents_is_refused():
    with refused(ConfigError, "other-documents", "change", "4 documents", "base on 9"):
        judged(trials(), Trials("change", np.ones((N, 4))))


class TestAnswersThatNeverDiffer:
    found = two_way_effects(np.zeros((N, 300)), answers=True)

    def test_are_not_proof_of_sameness_beyond_the_number_of_items(self):
        assert self.found.p_same(0.01) == pytest.approx(0.99**300)

    def test_leave_a_rate_possible(self):
        bound = self.found.estimate()
        assert (bound.low, bound.high) == pytest.approx((-(1 - 0.025 ** (1 / 300)), 1 - 0.025 ** (1 / 300)))
        assert two_way_effects(np.zeros((N, 300))).estimate().high == 0.0

    def test_a_few_that_are_always_lost_leave_more_possible_than_their_variance_says(self):
        d = np.zeros((N, 300))
        d[:, :2] = -1.0
        found, bound = two_way_effects(d), two_way_effects(d, answers=True).estimate()
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
        bound = two_way_effects(np.ones((N, 50)), answers=True).estimate()
        assert (bound.low, bound.high) == pytest.approx((1 - 2 * (1 - 0.025 ** (1 / 50)), 1.0))
        bound = two_way_effects(-np.ones((N, 50)), answers=True).estimate()
        assert (bound.low, bound.high) == pytest.approx((-1.0, 2 * (1 - 0.025 ** (1 / 50)) - 1))

    def test_the_same_through_a_whole_verdict(self):
        found = decide(Trials("base", np.zeros((8, 50))), [Trials("change", np.ones((8, 50)))], Rules((8,), ACCURACY))[0]
        assert found.difference.low == pytest.approx(1 - 2 * (1 - 0.02 ** (1 / 50)))
        few = decide(Trials("base", np.zeros((8, 3))), [Trials("change", np.ones((8, 3)))], Rules((8,), ACCURACY))[0]
        assert "Too few documents: more text is needed, not more seeds." in few.sentence

    def test_no_interval_goes_beyond_one(self):
        """Won by nearly every item, with seeds that differ: by t alone the interval reaches beyond 1."""
        base, change = Trials("base", np.zeros((8, 50))), np.ones((8, 50))
        change[0, :20] = 0.0
        found = decide(base, [Trials("change", change)], Rules((8,), ACCURACY))[0].evidence
        t = two_way_effects(change).estimate(0.96)
        assert t.high > 1.0
        assert found.difference.high == found.on_this_set.high == found.same_interval.high == 1.0
        lost = decide(Trials("base", change), [Trials("change", base.values)], Rules((8,), ACCURACY))[0]
        assert lost.difference.low == -1.0
        assert decide(base, [Trials("change", change)], Rules((8,), LOSS))[0].difference.high == pytest.approx(t.high)

    def test_nothing_changes_for_many_that_differ(self):
        rng = np.random.default_rng(0)
        d = rng.choice([-1.0, 0.0, 1.0], p=[0.1, 0.7, 0.2], size=(N, 300))
        plain, answers = two_way_effects(d), two_way_effects(d, answers=True)
        assert answers.p == plain.p
        assert answers.estimate().low == pytest.approx(plain.estimate().low, abs=0.01)


def test_numbers_by_hand():
    tokens = np.arange(1.0, M + 1)
    base, change = trials(), trials("change", 1)
    evidence = judged(base, change, weights=tokens, labels=(10, 11, 12, 13, 14, 15))
    weights = tokens / tokens.sum()
    means = (change.values - base.values) @ weights
    found = two_way_effects(change.values - base.values, tokens)
    assert evidence.seed_differences == pytest.approx(tuple(means))
    assert evidence.difference.value == pytest.approx(means.mean())
    assert evidence.seed_labels == (10, 11, 12, 13, 14, 15)
    assert evidence.seeds_better == (means < 0).sum()
    assert evidence.difference.high - means.mean() == pytest.approx(found.estimate(0.96).half_width)
    assert evidence.same_interval.high - means.mean() == pytest.approx(found.estimate(0.92).half_width)
    assert evidence.p_corrected == pytest.approx(min(1.0, evidence.p / 0.8))
    plain = evidence.to_dict()
    assert list(plain)[:5] == ["difference", "p", "p_corrected", "seeds", "seeds_needed"]
    assert json.loads(json.dumps(plain, allow_nan=False)) == plain


def test_the_interval_excludes_zero_exactly_where_p_is_significant():
    """Corrected like p, over several changes and looks: a word and its interval never contradict each other."""
    rng = np.random.default_rng(5)
    for looks in ((6,), (6, 8)):
        for _ in range(30):
            base = Trials("base", rng.normal(3.0, 0.1, (8, M)))
            shifts = rng.normal(0.0, 0.15, (4, 1, 1)) + rng.normal(0.0, 0.08, (4, 8, 1))
            changes = [Trials(str(at), base.values + shift) for at, shift in enumerate(shifts)]
            for one in decide(base, changes, Rules(looks, LOSS, 1e-9)):
                apart = one.difference.low > 0.0 or one.difference.high < 0.0
                assert apart == (one.evidence.p_corrected <= 0.05)


def test_a_far_off_run_is_named_by_its_seed():
    base, change = trials(), trials("change", 1)
    change.values[2] += 4.0
    assert judged(base, change, labels=(20, 21, 22, 23, 24, 25)).far_off_seeds == (22,)


def test_what_so_few_documents_may_have_missed():
    """None of 9 documents is hurt, which one in three may be; to move the mean by .02 each would have to lose .06."""
    evidence = judged(trials(), trials("change", 1))
    assert evidence.missed_documents(0.02) == (3, pytest.approx(0.06))
    answers = decide(Trials("base", np.zeros((N, 90))), [Trials("change", np.ones((N, 90)))], Rules((N,), ACCURACY))[0].evidence
    assert answers.missed_documents(0.02) == (30, pytest.approx(0.6))
    assert answers.missed_documents(0.04) is None  # no answer can lose more than itself


def test_a_difference_that_depends_on_length_is_named_where_lengths_are_unequal():
    logs = np.random.default_rng(1).normal(size=80)
    d = np.tile(0.1 * logs, (N, 1))
    found = long_and_short(two_way_effects(d, np.exp(logs)))
    assert found[0] > found[1]
    assert long_and_short(two_way_effects(d, np.ones(80))) is None
    assert long_and_short(two_way_effects(np.random.default_rng(2).normal(size=(N, 80)), np.exp(logs))) is None


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
