"""Verdicts over several changes and looks: corrections, exploratory changes, looks."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from tests.study.verdict_trials import FIXED, M, base, change, one

from glassformer.foundation.metrics import LOSS
from glassformer.pages import page
from glassformer.study.statistics.corrections import USUAL_LOOKS, Looks
from glassformer.study.statistics.evidence import Trials
from glassformer.study.statistics.verdict import Rules, decide


class TestSeveralChanges:
    def test_p_is_corrected_by_holm(self):
        changes = [change("a", -0.04, 0.03), change("b", -0.1, 0.03), change("c", 0.0, 0.03)]
        a, b, c = decide(base(), changes, FIXED)
        assert b.evidence.p_corrected == pytest.approx(3 * b.evidence.p / 0.8)
        assert a.evidence.p_corrected == pytest.approx(2 * a.evidence.p / 0.8)
        assert c.evidence.p_corrected == 1.0
        half = [0.5 * (one.difference.high - one.difference.low) * np.sqrt(8) / 0.03 for one in (a, b, c)]
        assert half == pytest.approx([stats.t.isf(0.02 / left, 7) for left in (2, 3, 1)])  # intervals corrected like p

    def test_an_exploratory_change_is_marked_and_does_not_touch_the_planned_ones(self):
        planned, later = change("planned", -0.01, 0.03), change("later", -0.06, 0.03, exploratory=True)
        first, second = decide(base(), [planned, later], FIXED)
        assert first.evidence.p_corrected == one(planned).evidence.p_corrected
        assert second.evidence.p_corrected == pytest.approx(2 * second.evidence.p / 0.2)
        assert second.sentence.startswith("Exploratory, added after the plan: later is ")
        assert second.to_dict()["exploratory"]

    @pytest.mark.parametrize("name", ["alibi", "is", "Exploratory", "a", "alibi (r = 2)"])
    @pytest.mark.parametrize("exploratory", [False, True])
    @pytest.mark.parametrize("seeds", [8, 3])
    def test_the_sentence_parts_around_the_name(self, name, exploratory, seeds):
        trials = change(name, -0.1, 0.03, exploratory=exploratory)
        verdict = one(Trials(name, trials.values[:seeds], exploratory=exploratory))
        shown = page.Verdict.of(name, verdict.verdict, verdict.sentence)
        before, after = shown.before, shown.sentence
        assert before == ("Exploratory, added after the plan:" if exploratory and seeds == 8 else "")
        assert after.startswith("is better, by more" if seeds == 8 else "is not decided: 3 of the 8 planned seeds")
        assert f"{before} {name} {after}".strip() == verdict.sentence

    @settings(max_examples=6, deadline=None)
    @given(st.permutations(range(8)), st.permutations(range(M)), st.permutations(range(3)))
    def test_no_order_matters(self, seeds, documents, order):
        of = base()
        changes = [change("a", -0.034, 0.03), change("b", -0.05, 0.03, document_sd=0.4), change("c", 0.001, 0.004)]
        tokens = np.arange(1.0, M + 1)
        plainly = {verdict.variant: verdict for verdict in decide(of, changes, FIXED, weights=tokens)}
        turned = [Trials(one.name, one.values[seeds][:, documents]) for one in (changes[i] for i in order)]
        shuffled = decide(
            Trials("base", of.values[seeds][:, documents]), turned, FIXED, weights=tokens[documents], labels=list(seeds)
        )
        for verdict in shuffled:
            other = plainly[verdict.variant]
            assert verdict.verdict == other.verdict
            assert verdict.evidence.p_corrected == pytest.approx(other.evidence.p_corrected, rel=1e-9)

    @settings(max_examples=15, deadline=None)
    @given(st.floats(-0.2, 0.2), st.floats(0.001, 0.1))
    def test_turning_the_sign_turns_better_into_worse(self, shift, sd):
        swap = {"better": "worse", "worse": "better"}
        up, down = one(change("a", shift, sd)), Trials("a", 2 * base().values - change("a", shift, sd).values)
        assert one(down).verdict == swap.get(up.verdict, up.verdict)


class TestLooks:
    rules = Rules(USUAL_LOOKS, LOSS)

    def test_a_large_difference_stops_at_the_first_look(self):
        of = base(16)
        verdict = one(change("alibi", -0.2, 0.01, of=of), self.rules, of)
        assert verdict.verdict == "better"
        assert verdict.evidence.seeds == 6
        assert verdict.headline.endswith("p < 0.0001, corrected for 4 looks.")
        sd = np.std(verdict.evidence.seed_differences, ddof=1)
        reach = 0.5 * (verdict.difference.high - verdict.difference.low) * np.sqrt(6) / sd
        assert reach == pytest.approx(stats.t.isf(0.005625 / 2, 5), rel=1e-4)  # valid at every look
        assert verdict.analyses == ((6, pytest.approx(0.8 * 36 / 256)),)

    def test_what_an_ordinary_test_would_call_found_is_not_found_early(self):
        # the first look asks for p <= .0056, the ordinary test for .05
        of = base(6)
        verdict = one(change("alibi", -0.04, 0.03, of=of), self.rules, of)
        assert 0.007 < verdict.evidence.p < 0.05
        assert verdict.verdict == "not decided"
        assert verdict.reason == "the next look is at 8 seeds"
        assert "8 of up to 16 seeds" in verdict.sentence
        assert verdict.evidence.p_corrected == pytest.approx(verdict.evidence.p * (16 / 6) ** 2 / 0.8)

    def test_seeds_between_looks_wait_for_the_next(self):
        of = base(11)
        assert one(change("alibi", -0.01, 0.03, of=of), self.rules, of).evidence.seeds == 8
        of = base(4)
        verdict = one(change("alibi", -0.2, 0.01, of=of), self.rules, of)
        assert verdict.reason == "4 of the 6 seeds needed for the first look have run"
        assert verdict.evidence is None
        assert verdict.to_dict()["seeds"] == 4

    def test_a_change_that_left_early_needs_no_more_seeds(self):
        of = base(16)
        early = change("early", -0.2, 0.01, of=of)
        late = change("late", -0.01, 0.03, of=of)
        complete = decide(of, [early, late], self.rules)
        stopped = decide(of, [Trials("early", early.values[:6]), late], self.rules)
        assert [verdict.to_dict() for verdict in complete] == [verdict.to_dict() for verdict in stopped]

    def test_what_was_found_leaves_more_error_to_the_others_but_what_is_the_same_does_not(self):
        of = base(8)
        looks = Looks(USUAL_LOOKS)
        # the differences of the first six seeds scatter, so nothing is found before the second look
        second = Trials("second", of.values - np.array([8, 1, 8, 1, 7, 6, 6, 6])[:, None] / 100)
        beside_found = decide(of, [change("first", -0.5, 0.01, of=of), second], self.rules)
        beside_same = decide(of, [change("first", 0.0, 0.0001, of=of), second], self.rules)
        assert [verdict.verdict for verdict in beside_found] == ["better", "better"]
        assert [verdict.verdict for verdict in beside_same] == ["same", "better"]
        p = beside_found[1].evidence.p
        assert beside_found[1].evidence.p_corrected == pytest.approx(0.05 * p / looks.threshold(1, 1))
        assert beside_same[1].evidence.p_corrected == pytest.approx(0.05 * p / looks.threshold(1, 2))

    def test_same_early_asks_for_more_than_the_90_per_cent_interval(self):
        of = base(6)
        # t(.96, 5) = 2.191 and t(.985, 5) = 3.003: half widths .0089 and .0123 for sd .01
        trials = change("alibi", 0.0, 0.01, of=of)
        assert one(trials, Rules((6,), LOSS), of).verdict == "same"
        assert one(trials, self.rules, of).verdict == "not decided"
