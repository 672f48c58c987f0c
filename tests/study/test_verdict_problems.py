"""Verdicts where something is wrong: invalid and failed runs, unusual sets, kept baselines."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from tests.study.verdict_trials import FIXED, M, base, change, one

from glassformer.foundation.metrics import LOSS
from glassformer.study.statistics.corrections import USUAL_LOOKS
from glassformer.study.statistics.evidence import Problem, Trials
from glassformer.study.statistics.verdict import Rules, decide


class TestInvalid:
    @pytest.mark.parametrize("kind", list(Problem))
    def test_one_bad_run_is_enough_and_no_pair_is_dropped(self, kind):
        verdict = one(change("alibi", -0.1, 0.03, problems={3: kind}), labels=range(100, 108))
        assert verdict.verdict == "invalid"
        assert verdict.failed_seeds == (103,)
        assert "in 1 of 8 seeds (seed 103)" in verdict.sentence

    def test_a_missing_pair(self):
        trials = change("alibi", -0.1, 0.03)
        trials.values[5] = np.nan
        verdict = one(trials)
        assert verdict.verdict == "invalid"
        assert "it has no result in 1 of 8 seeds (seed 5)" in verdict.reason
        assert verdict.to_dict()["difference"] == {"value": None, "low": None, "high": None, "n": 0, "reason": verdict.reason}
        assert verdict.to_dict()["seeds"] == 8

    def test_a_bad_baseline_run_makes_the_whole_study_invalid(self):
        bad = Trials("base", base().values, {2: Problem.DIVERGED})
        verdicts = decide(bad, [change("a", -0.1, 0.03), change("b", 0.1, 0.03)], FIXED)
        assert [verdict.verdict for verdict in verdicts] == ["invalid", "invalid"]
        assert "the baseline diverged in 1 of 8 seeds (seed 2); nothing can be compared with it" in verdicts[0].sentence

    def test_a_leak_is_named_although_the_baseline_failed_too(self):
        bad = Trials("base", base().values, {2: Problem.DIVERGED})
        leaks, plain = change("a", -0.1, 0.03, problems=dict.fromkeys(range(8), Problem.LEAK)), change("b", 0.1, 0.03)
        verdicts = decide(bad, [leaks, plain], FIXED)
        assert verdicts[0].sentence == "a is invalid: it sees what it has to predict (a check found a leak) in 8 of 8 seeds."
        assert "the baseline diverged" in verdicts[1].sentence

    def test_a_leak_that_was_trained_all_the_same_tells_what_one_would_have_believed(self):
        verdict = one(change("reweight", -0.8, 0.03, problems=dict.fromkeys(range(8), Problem.LEAK)))
        assert verdict.verdict == "invalid"
        assert "Without the check one would have believed: loss lower by 0.800" in verdict.sentence
        assert verdict.evidence.p_corrected == 1.0
        assert verdict.difference.value == pytest.approx(-0.8)

    def test_an_invalid_change_still_counts_among_the_planned(self):
        good, bad = change("good", -0.034, 0.03), change("bad", 0.0, 0.03, problems={0: Problem.DIVERGED})
        alone, beside = one(good), decide(base(), [good, bad], FIXED)[0]
        assert beside.evidence.p_corrected == pytest.approx(2 * alone.evidence.p_corrected)


class TestFailedRuns:
    def test_what_was_decided_is_not_taken_back_when_the_baseline_fails_later(self):
        of = base(12)
        early, late = change("early", -0.2, 0.01, of=of), change("late", -0.01, 0.03, of=of)
        broken = Trials("base", of.values, {9: Problem.DIVERGED})
        decided, open_still = decide(broken, [Trials("early", early.values[:6]), late], Rules(USUAL_LOOKS, LOSS))
        assert (decided.verdict, decided.evidence.seeds) == ("better", 6)
        assert open_still.verdict == "invalid"
        assert "the baseline diverged in 1 of 12 seeds (seed 9); nothing can be compared with it" in open_still.sentence

    def test_nor_when_the_change_fails_at_a_seed_it_was_decided_without(self):
        of = base(12)
        verdict = one(change("early", -0.2, 0.01, of=of, problems={8: Problem.DIVERGED}), Rules(USUAL_LOOKS, LOSS), of)
        assert (verdict.verdict, verdict.evidence.seeds) == ("better", 6)

    def test_a_change_that_fails_more_often_than_the_baseline_is_unstable(self):
        verdict = one(change("alibi", -0.1, 0.03, problems={1: Problem.DIVERGED, 3: Problem.COLLAPSED}))
        assert (verdict.verdict, verdict.reason) == ("invalid", "unstable")
        assert (
            "it is unstable. 2 of 8 runs failed (3 to 65 %), of the baseline 0 of 8 runs failed (0 to 37 %)" in verdict.sentence
        )
        assert "it diverged in 1 of 8 seeds (seed 1)" in verdict.sentence
        rates = verdict.to_dict()["failure_rates"]
        assert (rates["change"]["failed"], rates["baseline"]["failed"]) == (2, 0)
        assert rates["change"]["low"] == pytest.approx(0.0319, abs=1e-4)

    def test_a_lost_file_is_not_instability(self):
        verdict = one(change("alibi", -0.1, 0.03, problems={1: Problem.MISSING}))
        assert verdict.reason == "it has no result in 1 of 8 seeds (seed 1)"
        assert verdict.to_dict()["failure_rates"] == {}


class TestUnusualSets:
    def test_blocks_of_one_text_are_called_that(self):
        verdict = one(change("alibi", -0.1, 0.03), blocks=True)
        assert verdict.verdict == "better"
        assert "Measured on 737 blocks of one text: the verdict is about other parts of this text." in verdict.sentence
        assert verdict.to_dict()["documents_are"] == "blocks"

    def test_documents_above_a_quarter_of_the_variance_are_named(self):
        words = {}
        for scatter in (0.2, 0.4):
            verdict = one(change("alibi", -0.3, 0.03, document_sd=scatter))
            share, helps = re.search(
                r"(\d+) % of the variance comes from the documents: .* would help (\w+)\.", verdict.sentence
            ).groups()
            words[helps] = int(share)
        assert 25 < words["too"] < 50 < words["most"]  # below half, more seeds help more

    def test_by_more_than_the_margin_is_corrected_over_the_changes(self):
        # the interval of one change reaches from .0102 to .0636: beyond the margin alone, and not among five
        close = change("close", -0.0369, 0.03)
        assert one(close).reason.endswith("by more than the margin")
        others = [change(name, -0.5, 0.001) for name in "ab"] + [change(name, 0.0, 0.03) for name in "cd"]
        assert not decide(base(), [close, *others], FIXED)[0].reason.endswith("by more than the margin")

    def test_the_luck_of_tuning_is_in_the_interval(self):
        plainly = one(change("alibi", -0.1, 0.03))
        tuned = one(replace(change("alibi", -0.1, 0.03), tuning_variance=0.03**2))
        assert tuned.difference.high - tuned.difference.low == pytest.approx(
            3.0 * (plainly.difference.high - plainly.difference.low), rel=1e-6
        )

    def test_a_leak_is_told_with_how_it_cheats(self):
        how = "a later token changes its predictions (at blocks.0.merge)"
        leaks = Trials("heads re-weighted", np.full((8, M), np.nan), dict.fromkeys(range(8), Problem.LEAK), leak=how)
        assert one(leaks).sentence == f"heads re-weighted is invalid: it cheats and was not trained: {how}."


class TestWithoutPairs:
    rules = Rules((6,), LOSS, by_pairs=False)

    def test_a_change_is_judged_against_all_cached_runs_of_the_baseline(self):
        of = base(32)
        verdict = one(Trials("alibi", of.values[:6] - 0.2), self.rules, of)
        assert verdict.verdict == "better"
        assert verdict.evidence.base_runs == 32
        assert "6 runs of the change, 32 stored runs of the baseline" in verdict.sentence

    def test_a_cached_run_that_failed_makes_it_invalid(self):
        of = Trials("base", base(32).values, {20: Problem.DIVERGED})
        assert one(Trials("alibi", of.values[:6] - 0.2), self.rules, of).verdict == "invalid"
