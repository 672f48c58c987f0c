from __future__ import annotations

from fractions import Fraction

import pytest

from glassformer.byhand.wording import combination, fraction, number, percent, some_keys, vector


@pytest.mark.parametrize(
    ("x", "text"),
    [
        (0, "0"),
        (0.25, "0.25"),
        (-2.0, "-2"),
        (3.14159, "3.142"),
        (12345.6, "12346"),
        (1e-7, "1.00e-07"),
        (2e5, "2.00e+05"),
        (1.0, "1"),
        (0.99995, "0.999950"),
        (1 - 1e-15, "1"),
    ],
)
def test_number(x, text):
    assert number(x) == text


def test_lists_and_combinations():
    assert vector([0.5, 1, -0.25]) == "(0.5, 1, -0.25)"
    assert some_keys([0]) == "key 1"
    assert some_keys([0, 1, 4]) == "keys 1, 2 and 5"
    assert combination({1: Fraction(1, 4), 2: Fraction(3, 4)}) == "1/4 key 2 + 3/4 key 3"
    assert combination({0: Fraction(1), 3: Fraction(-2)}) == "key 1 - 2 key 4"
    assert combination({0: -0.5, 2: 1.5}, "log p") == "- 0.5 log p1 + 1.5 log p3"
    assert fraction(Fraction(1, 3)) == "1/3"
    assert fraction(Fraction(1, 3001)) == "0.0003332"
    assert fraction(Fraction(7)) == "7"
    assert percent(0.8791) == "87.9 %"
