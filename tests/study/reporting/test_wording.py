"""The words people read: numbers with honest digits, lists, problems."""

from __future__ import annotations

import numpy as np
import pytest

from glassformer.foundation.metrics import ACCURACY, LOSS
from glassformer.study.reporting.wording import headline, listed, number, p_value, problem, waiting
from glassformer.study.statistics.evidence import Problem, Trials
from glassformer.study.statistics.verdict import Rules, decide


@pytest.mark.parametrize(
    ("value", "half_width", "text"),
    [
        (0.0321456, 0.0171, "0.032"),
        (0.0321456, 0.00171, "0.0321"),
        (12.3456, 4.0, "12.3"),
        (1234.5, 250.0, "1234"),
        (0.5, None, "0.5000"),
        (0.0, 0.0, "0"),
        (0.25, float("inf"), "0.2500"),
        (0.0, 0.004, "0.0000"),
        (8.1e-9, None, "8.1e-09"),
        (8.1e-9, 0.004, "0.0000"),
    ],
)
def test_numbers_have_the_digits_their_uncertainty_leaves(value, half_width, text):
    assert number(value, half_width) == text


@pytest.mark.parametrize(
    ("p", "text"), [(0.021349, "= 0.021"), (1.0, "= 1"), (0.0001, "= 0.0001"), (3e-9, "< 0.0001"), (0.0, "< 0.0001")]
)
def test_p_values(p, text):
    assert p_value(p) == text


def test_lists():
    assert listed([3], "seed") == "seed 3"
    assert listed([3, 5], "seed") == "seeds 3 and 5"
    assert listed([3, 5, 7], "seed") == "seeds 3, 5 and 7"


def test_problems_name_kind_count_and_seeds():
    problems = {1: Problem.DIVERGED, 2: Problem.COLLAPSED, 3: Problem.DIVERGED}
    text = problem(problems, [10, 11, 12, 13, 14], 5, "it")
    assert text == (
        "it diverged in 2 of 5 seeds (seeds 11 and 13) and "
        "it collapsed (it had learned, and ended no better than the trivial baseline) in 1 of 5 seeds (seed 12)"
    )


def test_when_all_seeds_have_it_they_are_not_listed():
    assert problem(dict.fromkeys(range(3), Problem.LEAK), [0, 1, 2], 3, "it").endswith("in 3 of 3 seeds")


def test_every_problem_has_words():
    for kind in Problem:
        assert problem({0: kind}, [4], 2, "the baseline").endswith("in 1 of 2 seeds (seed 4); nothing can be compared with it")


def test_waiting_and_headline():
    assert headline("alibi", "not decided", waiting(3, (8,))) == "alibi is not decided: 3 of the 8 planned seeds have run."
    assert waiting(3, (6, 8)) == "3 of the 6 seeds needed for the first look have run"


def verdict_of(shift: float, sd: float, changes: int = 1, **rules):
    rng = np.random.default_rng(3)
    base = Trials("base", 2.28 + 0.1 * rng.normal(size=(8, 700)))
    effects = np.array([-1.5, -0.9, -0.5, -0.1, 0.1, 0.5, 0.9, 1.5])[:, None]
    others = [Trials(f"other {i}", base.values + 0.001 * effects) for i in range(changes - 1)]
    own = Trials("rotary positions", base.values + shift + sd * effects)
    return decide(base, [own, *others], Rules((8,), LOSS, margin=0.02, **rules))[0]


def test_a_difference_comes_in_its_unit_with_what_is_not_excluded():
    sentence = verdict_of(-0.4, 0.05, 3).sentence
    assert sentence.startswith(
        "rotary positions is better, by more than your margin of 0.02: loss 2.281 -> 1.881, lower by 0.400 nats"
    )
    assert "up to 31 in 100 runs go badly" in sentence
    assert "deviation" not in sentence


def test_not_decided_says_what_fits_and_what_to_do():
    verdict = verdict_of(-0.007, 0.03, command="glassformer compare plan.yaml --seeds {seeds} --first-seed 8")
    assert "Anything from 0.033 better to 0.019 worse (nats per token) is possible" in verdict.headline
    assert "--seeds 29 --first-seed 8" in verdict.headline


def test_accuracy_is_better_when_it_rises():
    rng = np.random.default_rng(1)
    base = Trials("base", (rng.random((8, 400)) < 0.5).astype(float))
    change = Trials("more", np.where(rng.random((8, 400)) < 0.3, 1.0, base.values))
    verdict = decide(base, [change], Rules((8,), ACCURACY))[0]
    assert (
        "the default margin of 1 percentage point: accuracy 50.8 % -> 64.3 %, higher by 13.5 percentage points"
        in verdict.headline
    )
    noise = Trials("noise", np.where(rng.random((8, 400)) < 0.3, rng.integers(0, 2, (8, 400)), base.values))
    assert "worse (percentage points)" in decide(base, [noise], Rules((8,), ACCURACY))[0].headline
