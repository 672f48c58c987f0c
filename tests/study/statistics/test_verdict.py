"""The table of verdicts, row by row and in its order; what is printed."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
from scipy import stats
from tests.refusals import refused
from tests.study.verdict_trials import FIXED, base, change, one

from glassformer.foundation.errors import ConfigError
from glassformer.foundation.metrics import ACCURACY, LOSS
from glassformer.study.statistics.corrections import USUAL_LOOKS
from glassformer.study.statistics.evidence import Problem, Trials
from glassformer.study.statistics.two_way import two_way_effects
from glassformer.study.statistics.verdict import Rules, decide


class TestTheRows:
    def test_2_below_six_seeds_nothing_is_decided(self):
        of = base(5)
        verdict = one(change("alibi", -0.5, 0.01, of=of), Rules((5,), LOSS), of)
        assert verdict.verdict == "not decided"
        assert verdict.reason == "a verdict needs at least 6 seeds"
        assert verdict.evidence.p < 0.05  # it would have been found otherwise
        assert verdict.analyses == ()

    def test_3_same(self):
        verdict = one(change("alibi", 0.001, 0.004))
        assert verdict.verdict == "same"
        assert verdict.reason == "the difference is smaller than the margin"
        assert "the default margin of 0.01" in verdict.headline
        assert (
            "do not rule out that up to 31 in 100 runs go badly. 737 documents do not rule out that 1 in 245 is worse by 2."
            in verdict.sentence
        )
        assert "significant" not in verdict.sentence

    def test_3_same_though_real(self):
        verdict = one(change("alibi", 0.003, 0.001))
        assert verdict.verdict == "same"
        assert verdict.evidence.p_corrected <= 0.05
        assert "significant, but smaller than the margin" in verdict.sentence

    def test_3_same_needs_the_whole_interval_inside_the_margin(self):
        # t(.96, 7) = 2.0460: half width of the interval is 2.0460 sd / sqrt(8) = .00723 for sd .01
        assert one(change("alibi", 0.0026, 0.01)).verdict == "same"
        assert one(change("alibi", 0.0029, 0.01)).verdict == "not decided"

    def test_3_a_hundred_documents_may_say_it_and_name_what_they_may_have_missed(self):
        of = base(8, 100)
        verdict = one(change("alibi", 0.0001, 0.001, of=of), of=of)
        assert verdict.verdict == "same"
        assert "that 1 in 33 is worse by 0.33 nats per token" in verdict.sentence

    def test_4_better_and_worse(self):
        better, worse = one(change("alibi", -0.1, 0.03)), one(change("alibi", 0.1, 0.03))
        assert (better.verdict, worse.verdict) == ("better", "worse")
        assert (better.evidence.seeds_better, worse.evidence.seeds_better) == (8, 0)
        assert "lower by 0.100 nats per token" in better.headline
        assert "up to 31 in 100 runs go badly" in better.sentence
        assert "bad runs" not in worse.sentence
        assert better.analyses == ((8, pytest.approx(0.8)),)

    def test_4_for_a_metric_that_should_rise(self):
        rules = Rules((8,), ACCURACY)
        assert one(change("alibi", 0.1, 0.03), rules).verdict == "better"
        assert "lower by 10.0 percentage points" in one(change("alibi", -0.1, 0.03), rules).sentence

    def test_4_by_more_than_the_margin_only_if_the_interval_lies_beyond_it(self):
        # t(.98, 7) = 2.5168: half width is .0267 for sd .03, so 0.034 is found and reaches down to 0.0073
        near = one(change("alibi", -0.034, 0.03))
        assert near.verdict == "better"
        assert not near.reason.endswith("by more than the margin")
        assert one(change("alibi", -0.0369, 0.03)).reason.endswith("by more than the margin")

    def test_4_the_interval_and_p_are_those_of_the_analysis(self):
        verdict = one(change("alibi", -0.1, 0.03))
        found = two_way_effects(change("alibi", -0.1, 0.03).values - base().values)
        assert verdict.difference.high == pytest.approx(-0.1 + stats.t.isf(0.02, 7) * 0.03 / np.sqrt(8), rel=1e-6)
        assert verdict.evidence.p == float(found.p)
        assert verdict.evidence.p_corrected == pytest.approx(verdict.evidence.p / 0.8)

    def test_5_only_on_these_documents(self):
        verdict = one(change("alibi", -0.05, 0.03, document_sd=1.2))
        assert verdict.verdict == "not decided"
        assert verdict.reason == "significant on these documents, not for other text"
        assert "not decided for other text: on these 737 documents it is better" in verdict.sentence
        assert "of the variance comes from the documents: more text is needed, not more seeds." in verdict.sentence
        assert verdict.evidence.effects.document_share > 0.9

    def test_6_not_decided_says_what_would_decide(self):
        noisy = one(change("alibi", -0.02, 0.03))
        assert noisy.verdict == "not decided"
        assert noisy.evidence.seeds_needed.value > 100
        assert not re.search(r"\d+ more seeds", noisy.sentence)  # nobody trains as many: no number
        rules = Rules((8,), LOSS, planned_effect=0.05, command="glassformer compare plan.yaml --seeds {seeds} --first-seed 8")
        verdict = one(change("alibi", -0.02, 0.03), rules)
        more = verdict.evidence.seeds_needed.value - 8
        assert f"About {more} more seeds" in verdict.sentence
        assert f"--seeds {more} --first-seed 8" in verdict.sentence

    def test_6_when_documents_are_too_few_no_number_of_seeds_is_named(self):
        verdict = one(change("alibi", 0.02, 0.06, document_sd=1.2))
        assert "more text is needed, not more seeds" in verdict.sentence
        assert "more seeds (" not in verdict.sentence
        assert verdict.evidence.seeds_needed.value is None

    def test_documents_of_one_group_are_one_unit(self):
        """Differences that go with the speaker: found with documents as units, and not with three speakers."""
        of, speaker = base(8, 90), np.arange(90) % 3
        likes = np.array([-0.3, -0.1, 0.2])[speaker]
        alike = Trials("alibi", of.values - 0.05 + likes + 0.001 * np.arange(8)[:, None])
        plain, grouped = one(alike, of=of), one(alike, of=of, groups=[f"speaker {at}" for at in speaker])
        assert (plain.verdict, grouped.verdict) == ("better", "not decided")
        assert (grouped.evidence.documents, grouped.evidence.unit) == (3, "groups")
        assert grouped.difference.value == pytest.approx(plain.difference.value)

    def test_the_baseline_against_itself_is_the_same(self):
        verdict = one(Trials("again", base().values))
        assert verdict.verdict == "same"
        assert verdict.evidence.p == 1.0

    def test_answers_that_never_differ_are_the_same_only_with_enough_items(self):
        few, many = base(8, 50), base(8, 500)
        rules = Rules((8,), ACCURACY)
        assert one(Trials("again", few.values), rules, few).verdict == "not decided"
        assert one(Trials("again", many.values), rules, many).verdict == "same"


class TestPlain:
    def test_the_contract(self):
        for verdict in decide(base(), [change("a", -0.1, 0.03), change("b", 0.0, 0.01, problems={0: Problem.LEAK})], FIXED):
            document = verdict.to_dict()
            assert json.loads(json.dumps(document, allow_nan=False)) == document
            wanted = {"variant", "verdict", "difference", "p", "p_corrected", "seeds", "seeds_needed", "reason", "sentence"}
            assert wanted <= set(document)
            assert set(document["difference"]) >= {"value", "low", "high", "n"}
            assert set(document["seeds_needed"]) >= {"value", "low", "high"}
            assert verdict.verdict == "not decided" or document["seeds_needed"]["value"] is None

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
    with refused(ConfigError, "margin-not-positive", "margin=0.0"):
        Rules((8,), LOSS, margin=0.0)


def test_another_set_of_documents_is_refused():
    with refused(ConfigError, "other-documents"):
        one(Trials("alibi", np.ones((8, 3))))


def test_a_change_added_later_stays_exploratory_whatever_becomes_of_it():
    waiting = Trials("late", np.empty((0, base().values.shape[1])), exploratory=True)
    assert [found.exploratory for found in decide(base(), [waiting], FIXED)] == [True]
    lost = Trials("base", base().values, {1: Problem.DIVERGED})
    late = Trials("late", base().values + 0.1, exploratory=True)
    (found,) = decide(lost, [late], FIXED)
    assert (found.verdict, found.exploratory) == ("invalid", True)
