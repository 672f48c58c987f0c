"""Several data sets: random effects by hand and by simulation, and the sentence over all of them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from glassformer.foundation.metrics import ACCURACY, LOSS
from glassformer.study.history.ledger import Attempt, Earlier
from glassformer.study.statistics.evidence import Trials
from glassformer.study.statistics.meta_analysis import combine, over_sets
from glassformer.study.statistics.verdict import Rules, decide


def test_by_hand():
    # weights 1 and 1: Q = (1 - 3)^2 / 2 = 2, one more than its expectation 1, over 2 - 1: between = 1
    found = combine([1.0, 3.0], [1.0, 1.0])
    assert float(found.mean) == 2.0
    assert float(found.between) == pytest.approx(1.0)
    # (0.5 + 0.5) / (1 * 1) with weights 1/2 each
    assert float(found.variance) == pytest.approx(1.0)
    assert float(found.half_width()) == pytest.approx(12.7062, rel=1e-4)


def test_equal_truths_are_pooled():
    found = combine([1.0, 1.0, 1.0], [0.1, 0.2, 0.4])
    assert float(found.between) == 0.0
    assert float(found.variance) == pytest.approx(1 / (10 + 5 + 2.5))


def false_findings(sets: int, between: float, studies: int) -> float:
    """No effect on average over sets, though each set has its own."""
    rng = np.random.default_rng([sets, studies, round(10 * between)])
    errors = rng.uniform(0.5, 2.0, (studies, sets))
    truth = between * rng.standard_normal((studies, sets))
    return float((combine(truth + errors * rng.standard_normal((studies, sets)), errors**2).p <= 0.05).mean())


@pytest.mark.parametrize("between", [0.0, 1.0, 4.0])
@pytest.mark.parametrize("sets", [3, 6])
def test_false_findings_over_sets(sets, between):
    assert false_findings(sets, between, 4000) <= 0.06


def study_of(effect: float, seed: int):
    rng = np.random.default_rng(seed)
    base = Trials("base", 3.0 + 0.05 * rng.normal(size=(8, 400)))
    change = Trials("rotary", base.values + effect + 0.01 * rng.normal(size=(8, 1)) + 0.02 * rng.normal(size=(8, 400)))
    return decide(base, [change], Rules((8,), LOSS))


def test_a_change_that_helps_everywhere_is_better_over_all():
    sets = {"a": study_of(-0.20, 1), "b": study_of(-0.21, 2), "c": study_of(-0.19, 3)}
    overall = over_sets(sets, LOSS, 0.01)[0]
    assert overall.verdict == "better"
    assert overall.sentence.startswith("rotary is better over 3 sets: loss lower by 0.2")


def test_a_set_on_which_nothing_differs_is_a_set_like_any_other():
    base = Trials("base", 3.0 + 0.05 * np.random.default_rng(5).normal(size=(8, 400)))
    equal = decide(base, [Trials("rotary", base.values.copy())], Rules((8,), LOSS))
    overall = over_sets({"a": study_of(-0.2, 1), "b": study_of(-0.2, 2), "c": equal}, LOSS, 0.01)[0]
    assert overall.verdict == "not decided"
    assert -0.2 < overall.difference.value < 0.0
    assert over_sets({"a": equal, "b": equal, "c": equal}, LOSS, 0.01)[0].verdict == "same"


def test_a_set_without_variance_makes_no_false_findings():
    rng = np.random.default_rng(7)
    errors = rng.uniform(0.5, 2.0, (4000, 4)) * [1, 1, 1, 0]
    truth = rng.standard_normal((4000, 4)) * [1, 1, 1, 0]
    assert float((combine(truth + errors * rng.standard_normal((4000, 4)), errors**2).p <= 0.05).mean()) <= 0.06


def test_a_difference_that_is_cut_at_its_range_counts_with_its_whole_uncertainty():
    """Of -0.875 by shares: what is shown ends at -1, and what is combined reaches beyond it."""

    def shares(seeds_off: int):
        won = np.ones((8, 40))
        won[:seeds_off] = 0.0
        return decide(Trials("base", won), [Trials("rotary", np.zeros((8, 40)))], Rules((8,), ACCURACY))

    sets = {"a": shares(1), "b": shares(1), "c": shares(1)}
    shown = sets["a"][0].difference
    assert shown.low == -1.0
    overall = over_sets(sets, ACCURACY, 0.01)[0]
    assert overall.difference.low >= -1.0
    whole = sets["a"][0].evidence.half_width
    by_hand = combine([shown.value] * 3, [(whole / 1.96) ** 2] * 3)
    assert overall.p == pytest.approx(float(by_hand.p))
    assert whole > 0.5 * (shown.high - shown.low)


def test_two_sets_decide_nothing():
    overall = over_sets({"a": study_of(-0.2, 1), "b": study_of(-0.2, 2)}, LOSS, 0.01)[0]
    assert overall.verdict == "not decided"
    assert "A verdict needs at least 3 sets." in overall.sentence


def test_what_came_before_and_what_came_later_count_over_all_sets_too():
    three = {"a": study_of(-0.20, 1), "b": study_of(-0.21, 2), "c": study_of(-0.19, 3)}
    later = {where: [replace(one, exploratory=True) for one in own] for where, own in three.items()}
    assert over_sets(later, LOSS, 0.01)[0].sentence.startswith("Exploratory, added after the plan: rotary is better")
    before = Attempt(
        "studies/a", "plan", "base", "x", "text", "rotary", "rules", 0.01, 0, 8, "not decided", 0.2, "made", "question"
    )
    again = over_sets(three, LOSS, 0.01, earlier={"rotary": [Earlier(), Earlier(others=(before,) * 3)]})[0]
    plain = over_sets(three, LOSS, 0.01)[0]
    assert again.p == plain.p
    assert again.p_corrected == pytest.approx(min(1.0, plain.p_corrected / Earlier(others=(before,) * 3).share()))
    assert "It was studied before, so p is multiplied by" in again.sentence


def test_one_that_turns_round_is_not_decided_and_told_so():
    sets = {"a": study_of(-0.3, 1), "b": study_of(0.3, 2), "c": study_of(-0.2, 3)}
    overall = over_sets(sets, LOSS, 0.01)[0]
    assert overall.verdict == "not decided"
    assert "The sign of the difference varies between sets." in overall.sentence
    assert overall.to_dict()["by_set"] == {"a": "better", "b": "worse", "c": "better"}
