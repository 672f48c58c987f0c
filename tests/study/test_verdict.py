"""The table of verdicts, row by row and in its order; what is printed; looks; invalid trials; exploratory changes."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from glassformer.foundation.errors import ConfigError
from glassformer.foundation.metrics import ACCURACY, LOSS
from glassformer.study.evidence import Problem, Trials
from glassformer.study.sequential import USUAL_LOOKS, Looks
from glassformer.study.two_way import two_way_effects
from glassformer.study.verdict import Rules, decide

M = 737  # enough documents to exclude rare badly hurt ones at the margin of .01
# Eight seed effects with mean 0 and sd 1, so that t is known beforehand.
EFFECTS = np.array([-1.5, -0.9, -0.5, -0.1, 0.1, 0.5, 0.9, 1.5])
EFFECTS = EFFECTS / EFFECTS.std(ddof=1)


def base(seeds: int = 8, documents: int = M) -> Trials:
    return Trials("base", 3.0 + 0.3 * np.random.default_rng(0).normal(size=(seeds, documents)))


def change(name: str, shift: float, sd: float, *, of: Trials | None = None, document_sd: float = 0.0, **more) -> Trials:
    """A change whose paired differences have exactly this mean and sd over seeds, and documents that agree or do not."""
    of = of or base()
    effects = np.resize(EFFECTS, of.seeds)
    effects = (effects - effects.mean()) / effects.std(ddof=1)
    likes = np.random.default_rng(1).normal(size=of.values.shape[1])
    likes = document_sd * (likes - likes.mean())
    return Trials(name, of.values + shift + sd * effects[:, None] + likes, **more)


FIXED = Rules((8,), LOSS)


def one(trials: Trials, rules: Rules = FIXED, of: Trials | None = None, **more):
    return decide(of or base(), [trials], rules, **more)[0]


class TestTheRows:
    def test_2_below_six_seeds_nothing_is_decided(self):
        of = base(5)
        verdict = one(change("alibi", -0.5, 0.01, of=of), Rules((5,), LOSS), of)
        # .0001 / (.0001 / 7.84888) * 1.6 + 1.92, the factor for noise that 5 seeds know badly
        assert verdict.verdict == "not decided"
        assert verdict.reason == "below 6 seeds we do not decide"
        assert "Roughly 15 seeds (6-32) would find a difference of 0.01 four times in five." in verdict.sentence
        assert verdict.evidence.p < 0.05  # it would have been found otherwise

    def test_3_same(self):
        verdict = one(change("alibi", 0.001, 0.004))
        assert verdict.verdict == "same"
        assert verdict.reason == "the difference is smaller than the margin"
        assert verdict.headline.startswith(
            "alibi is the same within your margin of 0.01: loss 2.9985 -> 2.9995, higher by 0.0010 (90 % interval"
        )
        assert "real" not in verdict.sentence

    def test_3_same_though_real(self):
        verdict = one(change("alibi", 0.003, 0.001))
        assert verdict.verdict == "same"
        assert verdict.evidence.p_corrected <= 0.05
        assert "real, but smaller than the margin" in verdict.sentence

    def test_3_same_needs_the_whole_interval_inside_the_margin(self):
        # t(.95, 7) = 1.8946: half width of the 90 % interval is 1.8946 sd / sqrt(8) = .00670 for sd .01
        assert one(change("alibi", 0.0032, 0.01)).verdict == "same"
        assert one(change("alibi", 0.0034, 0.01)).verdict == "not decided"

    def test_4_better_and_worse(self):
        better, worse = one(change("alibi", -0.1, 0.03)), one(change("alibi", 0.1, 0.03))
        assert (better.verdict, worse.verdict) == ("better", "worse")
        assert better.evidence.seeds_better == 8
        assert worse.evidence.seeds_better == 0
        assert better.headline.startswith(
            "alibi is better, by more than your margin of 0.01: loss 2.998 -> 2.898, lower by 0.100 "
            "(95 % interval 0.075 to 0.125), in 8 of 8 seeds. p < 0.0001."
        )
        assert better.sentence == better.headline  # nothing bites
        assert "8 of 8 seeds better; sign-flip p = 0.0078 (8 seeds cannot give less than 0.0078)." in better.details
        assert better.details[-1] == (
            "A typical run is meant: 0 of 8 runs failed, and 8 runs cannot exclude rare bad runs, up to 31 %."
        )
        assert "in 8 of 8 seeds" in worse.headline

    def test_4_for_a_metric_that_should_rise(self):
        rules = Rules((8,), ACCURACY)
        assert one(change("alibi", 0.1, 0.03), rules).verdict == "better"
        assert "lower by 0.1" in one(change("alibi", -0.1, 0.03), rules).sentence

    def test_4_by_more_than_the_margin_only_if_the_interval_lies_beyond_it(self):
        # t(.975, 7) = 2.3646: half width is .0251 for sd .03, so 0.03 is found and reaches down to 0.0049
        near = one(change("alibi", -0.03, 0.03))
        assert near.verdict == "better"
        assert "more than the margin" not in near.sentence
        assert one(change("alibi", -0.0352, 0.03)).reason.endswith("by more than the margin")

    def test_4_the_interval_and_p_are_those_of_the_analysis(self):
        verdict = one(change("alibi", -0.1, 0.03))
        found = two_way_effects(change("alibi", -0.1, 0.03).values - base().values)
        assert verdict.difference.high == pytest.approx(-0.1 + 2.364624 * 0.03 / np.sqrt(8), rel=1e-6)
        assert verdict.evidence.p == float(found.p)

    def test_5_only_on_these_documents(self):
        verdict = one(change("alibi", -0.05, 0.03, document_sd=1.2))
        assert verdict.verdict == "not decided"
        assert verdict.reason == "shown for these documents, not for others"
        assert "not decided for other text: on these 737 documents it is better" in verdict.sentence
        assert "of the variance comes from the documents: more text is needed, not more seeds." in verdict.sentence
        assert verdict.evidence.document_share > 0.9

    def test_6_not_decided(self):
        verdict = one(change("alibi", -0.02, 0.03))
        assert verdict.verdict == "not decided"
        # a tenth of the error is left: z = 2.807, .0009 / (.0001 / 13.31) * 1.34 + 3.94 = 165
        assert verdict.headline == (
            "alibi is not decided: 8 seeds cannot tell. Anything from 0.045 better to 0.005 worse fits, "
            "and your margin is 0.01. Roughly 165 seeds (74-300) would settle it in a further study: on fresh seeds."
        )

    def test_6_with_the_command_to_settle_it(self):
        rules = Rules((8,), LOSS, command="glassformer compare plan.yaml --seeds {seeds} --first-seed 8")
        sentence = one(change("alibi", -0.02, 0.03), rules).sentence
        assert "would settle it in a further study: glassformer compare plan.yaml --seeds 165 --first-seed 8." in sentence

    def test_6_seeds_for_the_planned_effect_instead_of_the_margin(self):
        verdict = one(change("alibi", -0.02, 0.03), Rules((8,), LOSS, planned_effect=0.05))
        assert "Roughly 11 seeds (7-16) would settle it" in verdict.sentence

    def test_6_when_documents_are_too_few_no_number_of_seeds_is_named(self):
        verdict = one(change("alibi", 0.02, 0.06, document_sd=1.2))
        assert "more text is needed, not more seeds" in verdict.sentence
        assert "would settle" not in verdict.sentence
        assert "more documents are needed; no number of seeds is enough" in verdict.details[0]

    def test_the_baseline_against_itself_is_the_same(self):
        verdict = one(Trials("again", base().values))
        assert verdict.verdict == "same"
        assert verdict.evidence.p == 1.0

    def test_answers_that_never_differ_are_the_same_only_with_enough_items(self):
        few, many = base(8, 50), base(8, 500)
        rules = Rules((8,), ACCURACY)
        assert one(Trials("again", few.values), rules, few).verdict == "not decided"
        assert one(Trials("again", many.values), rules, many).verdict == "same"


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
        assert verdict.plain()["difference"] == {"value": None, "low": None, "high": None, "n": 0, "reason": verdict.reason}
        assert verdict.plain()["seeds"] == 8

    def test_a_bad_baseline_run_makes_the_whole_study_invalid(self):
        bad = Trials("base", base().values, {2: Problem.DIVERGED})
        verdicts = decide(bad, [change("a", -0.1, 0.03), change("b", 0.1, 0.03)], FIXED)
        assert [verdict.verdict for verdict in verdicts] == ["invalid", "invalid"]
        assert "the baseline diverged in 1 of 8 seeds (seed 2); nothing can be compared with it" in verdicts[0].sentence

    def test_a_leak_that_was_trained_all_the_same_tells_what_one_would_have_believed(self):
        verdict = one(change("reweight", -0.8, 0.03, problems=dict.fromkeys(range(8), Problem.LEAK)))
        assert verdict.verdict == "invalid"
        assert "Without the check one would have believed: loss lower by 0.800" in verdict.sentence
        assert verdict.evidence.p_corrected is None
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
        assert "it is unstable. 2 of 8 (3 to 65 %) of its runs failed, of the baseline's 0 of 8 (0 to 37 %)" in verdict.sentence
        assert "it diverged in 1 of 8 seeds (seed 1)" in verdict.sentence
        rates = verdict.plain()["failure_rates"]
        assert (rates["change"]["failed"], rates["baseline"]["failed"]) == (2, 0)
        assert rates["change"]["low"] == pytest.approx(0.0319, abs=1e-4)

    def test_a_lost_file_is_not_instability(self):
        verdict = one(change("alibi", -0.1, 0.03, problems={1: Problem.MISSING}))
        assert verdict.reason == "it has no result in 1 of 8 seeds (seed 1)"
        assert verdict.plain()["failure_rates"] == {}


class TestUnusualSets:
    def test_too_few_documents_to_exclude_rare_badly_hurt_ones(self):
        of = base(8, 100)
        verdict = one(change("alibi", 0.0001, 0.001, of=of), of=of)
        assert verdict.verdict == "not decided"
        assert "not decided for other text: on these 100 documents it is the same" in verdict.sentence
        assert verdict.sentence.endswith("299 documents without one would.")

    def test_blocks_of_one_text_are_called_that(self):
        verdict = one(change("alibi", -0.1, 0.03), blocks=True)
        assert verdict.verdict == "better"
        assert "Measured on 737 blocks of one text, so it holds for other stretches of this text." in verdict.sentence
        assert verdict.plain()["documents_are"] == "blocks of one text"

    def test_documents_above_a_quarter_of_the_variance_are_named(self):
        verdict = one(change("alibi", -0.3, 0.03, document_sd=0.4))
        assert re.search(r"\d\d % of the variance comes from the documents: more text would help most\.", verdict.sentence)

    def test_by_more_than_the_margin_is_corrected_over_the_changes(self):
        # the interval of one change reaches from .0101 to .0601: beyond the margin alone, and not among five
        close = change("close", -0.0352, 0.03)
        assert "by more than" in one(close).sentence
        others = [change(name, -0.5, 0.001) for name in "ab"] + [change(name, 0.0, 0.03) for name in "cd"]
        assert "by more than" not in decide(base(), [close, *others], FIXED)[0].sentence

    def test_the_luck_of_tuning_is_in_the_interval(self):
        plainly = one(change("alibi", -0.1, 0.03))
        tuned = one(replace(change("alibi", -0.1, 0.03), luck=0.03**2))
        assert tuned.difference.high - tuned.difference.low == pytest.approx(
            3.0 * (plainly.difference.high - plainly.difference.low), rel=1e-6
        )

    def test_a_leak_is_told_with_how_it_cheats(self):
        how = "a later token changes its predictions (at blocks.0.merge)"
        leaks = Trials("heads re-weighted", np.full((8, M), np.nan), dict.fromkeys(range(8), Problem.LEAK), leak=how)
        assert one(leaks).sentence == f"heads re-weighted is invalid: it cheats and was not trained: {how}."


class TestWithoutPairs:
    rules = Rules((6,), LOSS, by_pairs=False)

    def test_a_change_is_judged_against_all_kept_runs_of_the_baseline(self):
        of = base(32)
        verdict = one(Trials("alibi", of.values[:6] - 0.2), self.rules, of)
        assert verdict.verdict == "better"
        assert verdict.evidence.base_runs == 32
        assert any("6 runs of the change against 32 kept runs of the baseline" in detail for detail in verdict.details)

    def test_a_kept_run_that_failed_makes_it_invalid(self):
        of = Trials("base", base(32).values, {20: Problem.DIVERGED})
        assert one(Trials("alibi", of.values[:6] - 0.2), self.rules, of).verdict == "invalid"


class TestSeveralChanges:
    def test_p_is_corrected_by_holm(self):
        changes = [change("a", -0.034, 0.03), change("b", -0.1, 0.03), change("c", 0.0, 0.03)]
        a, b, c = decide(base(), changes, FIXED)
        assert b.evidence.p_corrected == pytest.approx(3 * b.evidence.p)
        assert a.evidence.p_corrected == pytest.approx(2 * a.evidence.p)
        assert c.evidence.p_corrected == 1.0
        # z(1 - .05 / 6) = 2.394: .0009 / (.0001 / (2.394 + .8416)^2) + 2.394^2 / 2 = 97.1, and more for unknown noise
        assert c.evidence.seeds_needed.value == 127

    def test_an_exploratory_change_is_marked_and_does_not_touch_the_planned_ones(self):
        planned, later = change("planned", -0.03, 0.03), change("later", -0.034, 0.03, exploratory=True)
        first, second = decide(base(), [planned, later], FIXED)
        assert first.evidence.p_corrected == one(planned).evidence.p_corrected
        assert second.evidence.p_corrected == pytest.approx(2 * second.evidence.p)
        assert second.sentence.startswith("Exploratory, added after the plan: later is ")
        assert second.plain()["exploratory"]

    @pytest.mark.parametrize("name", ["alibi", "is", "Exploratory", "a", "alibi (r = 2)"])
    @pytest.mark.parametrize("exploratory", [False, True])
    @pytest.mark.parametrize("seeds", [8, 3])
    def test_the_sentence_parts_around_the_name(self, name, exploratory, seeds):
        trials = change(name, -0.1, 0.03, exploratory=exploratory)
        verdict = one(Trials(name, trials.values[:seeds], exploratory=exploratory))
        before, after = verdict.around_name()
        assert before == ("Exploratory, added after the plan:" if exploratory and seeds == 8 else "")
        assert after.startswith("is better, by more" if seeds == 8 else "is not decided: 3 of the 8 seeds")
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
            assert dict(verdict.decided_alone_by) == dict(other.decided_alone_by)

    @settings(max_examples=15, deadline=None)
    @given(st.floats(-0.2, 0.2), st.floats(0.001, 0.1))
    def test_turning_the_sign_turns_better_into_worse(self, shift, sd):
        swap = {"better": "worse", "worse": "better"}
        up, down = one(change("a", shift, sd)), Trials("a", 2 * base().values - change("a", shift, sd).values)
        assert one(down).verdict == swap.get(up.verdict, up.verdict)


class TestSeedsThatDecideAlone:
    def test_the_seed_that_hides_a_difference_is_named(self):
        trials = change("alibi", -0.1, 0.01)
        trials.values[6] += 0.6
        verdict = one(trials)
        assert verdict.verdict == "not decided"
        assert verdict.decided_alone_by == {6: "better"}
        bites = "Seed 6 lies far off the others, so this is about a typical run only. Without seed 6 it would be better."
        assert bites in verdict.sentence

    def test_a_clear_difference_rests_on_no_single_seed(self):
        assert one(change("alibi", -0.1, 0.01)).decided_alone_by == {}

    def test_when_every_seed_is_needed_the_sentence_says_so(self):
        # One of five changes, t = 4.1 with 6 seeds: p <= .01 needs 4.03, but 4.60 with 5 seeds, where t is 4.15 at best.
        of = base(6)
        close = Trials("close", of.values - 0.1833 + 0.1 * np.array([1, -1, 1, -1, 1, -1])[:, None])
        verdict, *_ = decide(of, [close, *(change(name, 0.0, 0.1, of=of) for name in "abcd")], Rules((6,), LOSS))
        assert verdict.verdict == "better"
        assert len(verdict.decided_alone_by) == 6
        assert "With any one seed fewer the verdict would be another." in verdict.sentence


class TestLooks:
    rules = Rules(USUAL_LOOKS, LOSS)

    def test_a_large_difference_stops_at_the_first_look(self):
        of = base(16)
        verdict = one(change("alibi", -0.2, 0.01, of=of), self.rules, of)
        assert verdict.verdict == "better"
        assert verdict.evidence.seeds == 6
        assert verdict.headline.endswith("p < 0.0001, corrected for 4 looks.")
        assert verdict.details[0].startswith("Stopped after 6 of up to 16 seeds; valid at every look: 95 % interval")
        reach = verdict.evidence.any_look
        assert reach.high - reach.low > verdict.difference.high - verdict.difference.low

    def test_what_an_ordinary_test_would_call_found_is_not_found_early(self):
        # the first look asks for p <= .0070, the ordinary test for .05
        of = base(6)
        verdict = one(change("alibi", -0.04, 0.03, of=of), self.rules, of)
        assert 0.007 < verdict.evidence.p < 0.05
        assert verdict.verdict == "not decided"
        assert verdict.reason == "the next look is at 8 seeds"
        assert "8 of up to 16 seeds" in verdict.sentence
        assert verdict.evidence.p_corrected == pytest.approx(verdict.evidence.p * (16 / 6) ** 2)

    def test_seeds_between_looks_wait_for_the_next(self):
        of = base(11)
        assert one(change("alibi", -0.01, 0.03, of=of), self.rules, of).evidence.seeds == 8
        of = base(4)
        verdict = one(change("alibi", -0.2, 0.01, of=of), self.rules, of)
        assert verdict.reason == "4 of the 6 seeds needed for the first look have run"
        assert verdict.evidence is None
        assert verdict.plain()["seeds"] == 4

    def test_the_last_look_says_what_a_new_study_would_need(self):
        of = base(16)
        verdict = one(change("alibi", -0.01, 0.03, of=of), self.rules, of)
        assert verdict.verdict == "not decided"
        assert "would settle it in a further study: on fresh seeds." in verdict.sentence

    def test_a_change_that_left_early_needs_no_more_seeds(self):
        of = base(16)
        early = change("early", -0.2, 0.01, of=of)
        late = change("late", -0.01, 0.03, of=of)
        complete = decide(of, [early, late], self.rules)
        stopped = decide(of, [Trials("early", early.values[:6]), late], self.rules)
        assert [verdict.plain() for verdict in complete] == [verdict.plain() for verdict in stopped]

    def test_what_was_found_leaves_more_error_to_the_others_but_what_is_the_same_does_not(self):
        of = base(8)
        looks = Looks(USUAL_LOOKS, changes=2)
        # the differences of the first six seeds scatter, so nothing is found before the second look
        second = Trials("second", of.values - np.array([8, 1, 8, 1, 7, 6, 6, 6])[:, None] / 100)
        beside_found = decide(of, [change("first", -0.5, 0.01, of=of), second], self.rules)
        beside_same = decide(of, [change("first", 0.0, 0.0001, of=of), second], self.rules)
        assert [verdict.verdict for verdict in beside_found] == ["better", "better"]
        assert [verdict.verdict for verdict in beside_same] == ["same", "better"]
        level = float(looks.level(beside_found[1].evidence.p, 1))
        assert beside_found[1].evidence.p_corrected == pytest.approx(level)
        assert beside_same[1].evidence.p_corrected == pytest.approx(2 * level)

    def test_same_early_asks_for_more_than_the_90_per_cent_interval(self):
        of = base(6)
        # t(.95, 5) = 2.015 and t(.98125, 5) = 2.808: half widths .0082 and .0115 for sd .01
        trials = change("alibi", 0.0, 0.01, of=of)
        assert one(trials, Rules((6,), LOSS), of).verdict == "same"
        assert one(trials, self.rules, of).verdict == "not decided"
        assert "96.2 % interval" in one(change("alibi", 0.0, 0.004, of=of), self.rules, of).sentence


class TestPlain:
    def test_the_contract(self):
        for verdict in decide(base(), [change("a", -0.1, 0.03), change("b", 0.0, 0.01, problems={0: Problem.LEAK})], FIXED):
            document = verdict.plain()
            assert json.loads(json.dumps(document, allow_nan=False)) == document
            wanted = {"variant", "verdict", "difference", "p", "p_corrected", "seeds", "seeds_needed", "reason", "sentence"}
            assert wanted <= set(document)
            assert set(document["difference"]) >= {"value", "low", "high", "n"}
            assert set(document["seeds_needed"]) >= {"value", "low", "high"}

    def test_sentences_are_sentences(self):
        of = base(16)
        for shift, sd, document_sd in [
            (-0.1, 0.03, 0),
            (0.001, 0.004, 0),
            (-0.05, 0.03, 0.4),
            (-0.02, 0.03, 0),
            (0, 0.06, 0.4),
        ]:
            for rules in (Rules((8,), LOSS), Rules(USUAL_LOOKS, LOSS)):
                verdict = one(change("alibi", shift, sd, of=of, document_sd=document_sd), rules, of)
                assert verdict.sentence.startswith(verdict.headline)
                assert verdict.sentence.endswith(".")
                assert not re.search(r"nan|None|\binf\b|  |\.\.|e-\d\d nats", verdict.sentence)


def test_a_margin_of_nothing_is_refused():
    with pytest.raises(ConfigError, match=r"margin=0\.0 must be above 0"):
        Rules((8,), LOSS, margin=0.0)


def test_another_set_of_documents_is_refused():
    with pytest.raises(ConfigError, match="same whole set"):
        one(Trials("alibi", np.ones((8, 3))))
