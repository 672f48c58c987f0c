"""Several texts: the t test over their means by hand, same only where every text says so, and the sentence over all of them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from glassformer.foundation.metrics import LOSS
from glassformer.study.history.ledger import Attempt, Earlier
from glassformer.study.statistics.corrections import FIRST_STUDY
from glassformer.study.statistics.evidence import Trials
from glassformer.study.statistics.meta_analysis import over_sets
from glassformer.study.statistics.verdict import Rules, decide


def study_of(effect: float, seed: int, noise: float = 0.01):
    rng = np.random.default_rng(seed)
    base = Trials("base", 3.0 + 0.05 * rng.normal(size=(8, 400)))
    change = Trials("rotary", base.values + effect + noise * rng.normal(size=(8, 1)) + 0.02 * rng.normal(size=(8, 400)))
    return decide(base, [change], Rules((8,), LOSS))


THREE = {"a": study_of(-0.20, 1), "b": study_of(-0.21, 2), "c": study_of(-0.19, 3)}


def test_is_the_t_test_of_the_means():
    overall = over_sets(THREE, LOSS, 0.01)[0]
    means = [own[0].difference.value for own in THREE.values()]
    exact = stats.ttest_1samp(means, 0.0)
    assert overall.p == pytest.approx(exact.pvalue)
    assert overall.p_corrected == pytest.approx(exact.pvalue / FIRST_STUDY)
    interval = exact.confidence_interval(1 - 0.05 * FIRST_STUDY)
    assert (overall.difference.low, overall.difference.high) == pytest.approx((interval.low, interval.high))
    assert overall.verdict == "better"
    assert overall.sentence.startswith("rotary is better over 3 sets: loss lower by 0.2")


def test_same_only_where_every_text_says_so():
    equal = {name: study_of(0.0, at, noise=0.002) for at, name in enumerate("abc")}
    assert {own[0].verdict for own in equal.values()} == {"same"}
    assert over_sets(equal, LOSS, 0.01)[0].verdict == "same"
    one_open = {**equal, "c": study_of(0.0, 1, noise=0.1)}
    assert one_open["c"][0].verdict == "not decided"
    assert over_sets(one_open, LOSS, 10.0)[0].verdict == "not decided"


def test_a_set_on_which_nothing_differs_is_a_set_like_any_other():
    base = Trials("base", 3.0 + 0.05 * np.random.default_rng(5).normal(size=(8, 400)))
    equal = decide(base, [Trials("rotary", base.values.copy())], Rules((8,), LOSS))
    overall = over_sets({"a": study_of(-0.2, 1), "b": study_of(-0.2, 2), "c": equal}, LOSS, 0.01)[0]
    assert overall.verdict == "not decided"
    assert -0.2 < overall.difference.value < 0.0
    assert over_sets({"a": equal, "b": equal, "c": equal}, LOSS, 0.01)[0].verdict == "same"


def test_two_sets_decide_nothing():
    overall = over_sets({"a": study_of(-0.2, 1), "b": study_of(-0.2, 2)}, LOSS, 0.01)[0]
    assert overall.verdict == "not decided"
    assert "A verdict needs at least 3 texts." in overall.sentence


def test_one_text_in_three_sizes_is_one_text():
    overall = over_sets(THREE, LOSS, 0.01, texts={"a": "t", "b": "t", "c": "t"})[0]
    assert overall.verdict == "not decided"
    assert "over 3 recipes on 1 text" in overall.sentence
    two = over_sets({**THREE, "d": study_of(-0.2, 4)}, LOSS, 0.01, texts={"a": "t", "b": "t", "c": "u", "d": "v"})[0]
    means = [np.mean([THREE[one][0].difference.value for one in "ab"]), THREE["c"][0].difference.value]
    assert two.difference.value == pytest.approx(np.mean([*means, study_of(-0.2, 4)[0].difference.value]))
    assert "over 4 recipes on 3 texts" in two.sentence


def test_what_came_before_and_what_came_later_count_over_all_sets_too():
    later = {where: [replace(one, exploratory=True) for one in own] for where, own in THREE.items()}
    plain, added = over_sets(THREE, LOSS, 0.01)[0], over_sets(later, LOSS, 0.01)[0]
    assert added.sentence.startswith("Exploratory, added after the plan: rotary is better")
    assert added.p_corrected == pytest.approx(4 * plain.p_corrected)
    before = Attempt("studies/a", "plan", "q", "code", "rotary", 0.01, tuple(range(8)), {}, {}, "not decided", ((8, 0.8),))
    again = over_sets(THREE, LOSS, 0.01, earlier={"rotary": [Earlier(), Earlier((before,), "q")]})[0]
    assert again.p == plain.p
    assert again.p_corrected == pytest.approx(8 * plain.p_corrected)


def test_one_that_turns_round_is_not_decided_and_told_so():
    sets = {"a": study_of(-0.3, 1), "b": study_of(0.3, 2), "c": study_of(-0.2, 3)}
    overall = over_sets(sets, LOSS, 0.01)[0]
    assert overall.verdict == "not decided"
    assert "The sign of the difference varies between sets." in overall.sentence
    assert overall.to_dict()["by_set"] == {"a": "better", "b": "worse", "c": "better"}
