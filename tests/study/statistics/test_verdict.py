"""The table of verdicts, row by row and in its order; what is printed."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
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
        # .0001 / (.0001 / 7.84888) * 1.6 + 1.92, the factor for noise that 5 seeds know badly
        assert verdict.verdict == "not decided"
        assert verdict.reason == "a verdict needs at least 6 seeds"
        assert "About 15 seeds (6 to 32) would detect a difference of 0.01 with 80 % power." in verdict.sentence
        assert verdict.evidence.p < 0.05  # it would have been found otherwise

    def test_3_same(self):
        verdict = one(change("alibi", 0.001, 0.004))
        assert verdict.verdict == "same"
        assert verdict.reason == "the difference is smaller than the margin"
        assert verdict.headline.startswith(
            "alibi is the same within your margin of 0.01: loss 2.9985 -> 2.9995, higher by 0.0010 (90 % interval"
        )
        assert "significant" not in verdict.sentence

    def test_3_same_though_real(self):
        verdict = one(change("alibi", 0.003, 0.001))
        assert verdict.verdict == "same"
        assert verdict.evidence.p_corrected <= 0.05
        assert "significant, but smaller than the margin" in verdict.sentence

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
        assert (
            "8 of 8 seeds are better. Sign-flip test: p = 0.0078 (the smallest p that 8 seeds can give is 0.0078)."
            in better.details
        )
        assert better.details[-1] == (
            "None of the 8 runs failed, which still allows a failure rate of up to 31 % (exact 95 % bound)."
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
        assert verdict.reason == "significant on these documents, not for other text"
        assert "not decided for other text: on these 737 documents it is better" in verdict.sentence
        assert "of the variance comes from the documents: more text is needed, not more seeds." in verdict.sentence
        assert verdict.evidence.document_share > 0.9

    def test_6_not_decided(self):
        verdict = one(change("alibi", -0.02, 0.03))
        assert verdict.verdict == "not decided"
        # a tenth of the error is left: z = 2.807, .0009 / (.0001 / 13.31) * 1.34 + 3.94 = 165
        assert verdict.headline == (
            "alibi is not decided: 8 seeds are not enough. Anything from 0.045 better to 0.005 worse is possible; "
            "your margin is 0.01. To detect a difference of 0.01 (your margin), a further study needs about 165 new "
            "seeds (74 to 300; fewer with a larger --margin)."
        )

    def test_6_an_interval_without_zero_says_that_the_correction_is_why(self):
        names = ("alibi", "none", "rotary")
        verdict = decide(base(), [change(name, -0.03, 0.03) for name in names], FIXED)[0]
        assert (verdict.verdict, verdict.difference.high < 0.0) == ("not decided", True)
        assert (
            "8 seeds are not enough. It looks better (loss 2.998 -> 2.968, lower by 0.030, 95 % interval 0.005 to 0.055), but "
            "p = 0.076, corrected for 3 changes, is above 0.05."
        ) in verdict.headline

    def test_6_with_the_command_to_settle_it(self):
        rules = Rules((8,), LOSS, command="glassformer compare plan.yaml --seeds {seeds} --first-seed 8")
        sentence = one(change("alibi", -0.02, 0.03), rules).sentence
        assert "fewer with a larger --margin): glassformer compare plan.yaml --seeds 165 --first-seed 8." in sentence

    def test_6_seeds_for_the_planned_effect_instead_of_the_margin(self):
        verdict = one(change("alibi", -0.02, 0.03), Rules((8,), LOSS, planned_effect=0.05))
        assert "To detect a difference of 0.05, a further study needs about 11 new seeds (7 to 16)." in verdict.sentence

    def test_6_when_documents_are_too_few_no_number_of_seeds_is_named(self):
        verdict = one(change("alibi", 0.02, 0.06, document_sd=1.2))
        assert "more text is needed, not more seeds" in verdict.sentence
        assert "further study" not in verdict.sentence
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


class TestPlain:
    def test_the_contract(self):
        for verdict in decide(base(), [change("a", -0.1, 0.03), change("b", 0.0, 0.01, problems={0: Problem.LEAK})], FIXED):
            document = verdict.to_dict()
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
    with refused(ConfigError, "margin-not-positive", "margin=0.0"):
        Rules((8,), LOSS, margin=0.0)


def test_another_set_of_documents_is_refused():
    with refused(ConfigError, "other-documents"):
        one(Trials("alibi", np.ones((8, 3))))
