from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from glassformer.byhand.solving.certificate import FixedProportion, Mixture, limit_sentence
from glassformer.byhand.weights import weights_of

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


def test_limit_sentence():
    assert "KL of 1.5, with weights (0.25, 0.75)" in limit_sentence(np.array([0.25, 0.75]), 1.5)
