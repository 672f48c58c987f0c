from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from scipy.optimize import linprog

from glassformer.byhand.solving.exact import Mixed, Separated, as_fractions, as_integers, dependences, separate


def test_numbers_are_the_decimals_a_person_reads():
    assert as_fractions(np.array([[0.1, -2.5e-3]])) == [[Fraction(1, 10), Fraction(-1, 400)]]
    assert as_integers(np.array([[0.1, 0.25], [-1.0, 3.0]])) == [[2, 5], [-20, 60]]


def test_a_key_in_the_middle_by_hand():
    answer = separate(as_integers(np.array([[0.0, 0], [3, 0], [-1, 0], [0, 5]])), [0])
    assert answer == Mixed({1: Fraction(1, 4), 2: Fraction(3, 4)}, {0: Fraction(1)})


def test_decimals_that_are_not_exact_in_binary_are_exact_here():
    assert 0.1 + 0.2 != 0.3
    answer = separate(as_integers(np.array([[0.1, 0.2], [0.2, 0.4], [0.3, 0.6]])), [1])
    assert answer == Mixed({0: Fraction(1, 2), 2: Fraction(1, 2)}, {1: Fraction(1)})


def test_members_may_have_negative_coefficients():
    """On a line: 3 = 2 * 2 - 1 * 1, so keys at 1 and 2 cannot tie above the key at 3."""
    answer = separate([[1], [2], [3]], [0, 1])
    assert answer == Mixed({2: Fraction(1)}, {0: Fraction(-1), 1: Fraction(2)})


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
    monkeypatch.setattr("glassformer.byhand.solving.exact.MAX_WORK", 10)
    assert separate([[0, 0], [1, 0], [-1, 0]], [0]) is None
