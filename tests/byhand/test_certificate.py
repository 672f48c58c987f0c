"""Separation and dependences in whole numbers, and certificates that are checked before they are shown."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from scipy.optimize import linprog

from glassformer.byhand.reachability import (
    FixedProportion,
    Mixture,
    Separated,
    as_fractions,
    as_integers,
    dependences,
    separate,
)
from glassformer.byhand.softmax import weights_of


def test_numbers_are_the_decimals_a_person_reads():
    assert as_fractions(np.array([[0.1, -2.5e-3]])) == [[Fraction(1, 10), Fraction(-1, 400)]]
    assert as_integers(np.array([[0.1, 0.25], [-1.0, 3.0]])) == [[2, 5], [-20, 60]]


def test_a_key_in_the_middle_by_hand():
    answer = separate(as_integers(np.array([[0.0, 0], [3, 0], [-1, 0], [0, 5]])), [0])
    assert answer == Mixture({1: Fraction(1, 4), 2: Fraction(3, 4)}, {0: Fraction(1)}, exact=True)


def test_decimals_that_are_not_exact_in_binary_are_exact_here():
    assert 0.1 + 0.2 != 0.3
    answer = separate(as_integers(np.array([[0.1, 0.2], [0.2, 0.4], [0.3, 0.6]])), [1])
    assert answer == Mixture({0: Fraction(1, 2), 2: Fraction(1, 2)}, {1: Fraction(1)}, exact=True)


def test_members_may_have_negative_coefficients():
    """On a line: 3 = 2 * 2 - 1 * 1, so keys at 1 and 2 cannot tie above the key at 3."""
    answer = separate([[1], [2], [3]], [0, 1])
    assert answer == Mixture({2: Fraction(1)}, {0: Fraction(-1), 1: Fraction(2)}, exact=True)


def test_a_direction_by_hand():
    answer = separate([[1, 0], [0, 1], [-1, -1]], [0, 1])
    assert isinstance(answer, Separated)
    x, y = answer.direction
    assert x == y > 0


def _random_keys(rng: np.random.Generator, kind: str) -> tuple[np.ndarray, list[int]]:
    n, d = int(rng.integers(2, 13)), int(rng.integers(1, 9))
    keys = rng.normal(size=(n, d))
    if kind == "integers":
        keys = rng.integers(-2, 3, size=(n, d)).astype(float)
    if kind == "doubled":
        keys = np.round(keys[rng.integers(0, n, size=n)], 2)
    return keys, sorted(rng.choice(n, size=int(rng.integers(1, n)), replace=False).tolist())


@pytest.mark.parametrize("kind", ["normal", "integers", "doubled"])
def test_exactly_one_answer_and_it_is_that_of_another_solver(kind):
    rng = np.random.default_rng(7)
    for _ in range(80):
        keys, members = _random_keys(rng, kind)
        answer, (n, d) = separate(as_integers(keys), members), keys.shape
        others = [j for j in range(n) if j not in members]
        down = np.column_stack([keys[others] - keys[members[0]], np.ones(len(others))])
        ties = np.column_stack([keys[members] - keys[members[0]], np.zeros(len(members))])
        best = linprog([0] * d + [-1], down, [0] * len(others), ties, [0] * len(members), [(-1, 1)] * d + [(None, 1)])
        assert (-best.fun > 1e-9) == isinstance(answer, Separated)
        rows = as_fractions(keys)
        if isinstance(answer, Separated):
            levels = [sum(a * b for a, b in zip(row, answer.direction)) for row in rows]
            assert len({levels[i] for i in members}) == 1
            assert max(levels[j] for j in others) < levels[members[0]]
        else:
            assert sum(answer.outside.values()) == 1 == sum(answer.members.values())
            assert min(answer.outside.values()) > 0
            for e in range(d):
                left = sum(c * rows[j][e] for j, c in answer.outside.items())
                assert left == sum(c * rows[i][e] for i, c in answer.members.items())


def test_dependences_by_hand():
    rows = [[Fraction(x) for x in row] for row in ([0, 1], [1, 1], [2, 1], [5, 1])]
    found = dependences(rows)
    assert found == [[1, -2, 1, 0], [4, -5, 0, 1]]
    assert dependences([[Fraction(1), Fraction(0)], [Fraction(0), Fraction(2)]]) == []
    assert dependences([[Fraction(0)], [Fraction(3)]]) == [[1, 0]]


def test_gives_up_rather_than_take_long(monkeypatch):
    monkeypatch.setattr("glassformer.byhand.reachability.MAX_WORK", 10)
    assert separate([[0, 0], [1, 0], [-1, 0]], [0]) is None


KEYS = np.array([[0.0, 0], [1, 0], [-1, 0], [0, 5]])
SELECT = np.array([1.0, 0, 0, 0])
HALF = Fraction(1, 2)
GOOD = Mixture({1: HALF, 2: HALF}, {0: Fraction(1)}, exact=True)


def test_a_true_mixture_holds_exact_and_rounded():
    assert GOOD.holds(KEYS, SELECT)
    assert Mixture({1: 0.5, 2: 0.5}, {0: 1.0}, exact=False).holds(KEYS, SELECT)
    assert Mixture({1: 0.5, 2: 0.5 + 1e-13}, {0: 1.0}, exact=False).holds(KEYS, SELECT)


@pytest.mark.parametrize(
    "false",
    [
        replace(GOOD, outside={1: Fraction(1, 3), 2: Fraction(2, 3)}),
        replace(GOOD, outside={1: HALF}),
        replace(GOOD, outside={1: Fraction(1), 2: Fraction(1)}),  # the sides agree, but the sums are not 1
        replace(GOOD, members={0: Fraction(2)}),
        replace(GOOD, outside={}),
        replace(GOOD, outside={1: HALF, 2: HALF, 3: Fraction(0)}),
        replace(GOOD, outside={0: Fraction(1)}),
        replace(GOOD, members={1: Fraction(1)}),
        Mixture({1: 0.5, 2: 0.5 + 1e-6}, {0: 1.0}, exact=False),
        Mixture({1: 1.0, 2: 1.0}, {0: 2.0}, exact=False),
    ],
)
def test_a_false_mixture_is_seen(false):
    assert not false.holds(KEYS, SELECT)


def test_the_largest_weight_is_a_bound_and_is_met():
    """With only the mixed keys there, the best weight is exactly 1 / (1 + e^H)."""
    assert GOOD.largest_weight() == pytest.approx(1 / 3, abs=1e-15)
    uneven = Mixture({1: Fraction(1, 4), 2: Fraction(3, 4)}, {0: Fraction(1)}, exact=True)
    keys = np.array([[0.0], [3], [-1]])
    assert uneven.holds(keys, SELECT[:3])
    weights = [weights_of(np.array([q]), keys)[0] for q in np.linspace(-5, 5, 2001)]
    assert max(weights) == pytest.approx(uneven.largest_weight(), abs=1e-5)
    assert max(weights) <= uneven.largest_weight() + 1e-12


def test_sentences_can_be_read():
    assert GOOD.sentence() == (
        "key 1 = 1/2 key 2 + 1/2 key 3 (exactly). Whatever the query, key 1 has that same mean of their scores, never above "
        "them all; its weight is at most 0.3333."
    )
    twin = Mixture({2: Fraction(1)}, {0: Fraction(1)}, exact=True)
    assert twin.sentence().startswith("key 1 = key 3 (exactly). Whatever the query, key 1 has the same score; ")
    several = Mixture({2: 1.0}, {0: 0.25, 1: 0.75}, exact=False)
    assert several.sentence().startswith("key 3 = 0.25 key 1 + 0.75 key 2 (up to rounding). So the score of key 3 is fixed by")
    assert GOOD.to_dict()["outside"] == [
        {"key": 2, "coefficient": 0.5, "exact": "1/2"},
        {"key": 3, "coefficient": 0.5, "exact": "1/2"},
    ]


def test_fixed_proportions():
    keys, goal = np.array([[0.0], [1], [2]]), np.array([0.25, 0.5, 0.25])
    proof = FixedProportion({0: Fraction(1), 1: Fraction(-2), 2: Fraction(1)}, -2 * math.log(2), exact=True)
    assert proof.holds(keys, goal)
    assert not proof.holds(keys, np.array([0.25, 0.25, 0.5])), "another value"
    assert not proof.holds(np.array([[0.0], [1], [3]]), goal), "other keys"
    assert not replace(proof, value=0.0).holds(keys, goal)
    logs = np.log(goal)
    lopsided = FixedProportion(
        {0: Fraction(5), 1: Fraction(-2), 2: Fraction(1)}, float(np.array([5, -2, 1]) @ logs), exact=True
    )
    assert not lopsided.holds(keys, goal), "the keys cancel, but the coefficients do not add up to 0"
    assert not FixedProportion({0: Fraction(1), 1: Fraction(-2), 2: Fraction(1)}, 0.0, exact=True).holds(
        keys, np.full(3, 1 / 3)
    )
    assert FixedProportion({0: 1.0, 1: -2.0, 2: 1.0}, -2 * math.log(2), exact=False).holds(keys, goal)
    assert not FixedProportion({0: 1.0, 1: -2.0, 2: 1.1}, -2 * math.log(2), exact=False).holds(keys, goal)
    assert proof.sentence() == (
        "key 1 - 2 key 2 + key 3 = 0 (exactly), and the coefficients add up to 0. So for every query "
        "log p1 - 2 log p2 + log p3 = 0, but the goal asks for -1.386."
    )
    assert proof.to_dict()["value"] == pytest.approx(-2 * math.log(2))
