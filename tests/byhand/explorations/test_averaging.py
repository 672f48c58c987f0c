from __future__ import annotations

import numpy as np
import pytest

from glassformer.byhand.explorations.averaging import averaging, directions
from glassformer.byhand.explorations.base import orthonormal_rows
from glassformer.byhand.optimum import widest_margin
from glassformer.byhand.softmax import weights_of


def leak_formula(n, lead):
    """The weight on the n - 2 unwanted values when the wanted two lead them all by ``lead``."""
    return (n - 2) / (n - 2 + 2 * np.exp(lead))


@pytest.mark.parametrize("n", [3, 5, 11])
def test_both_constructions_leak_what_the_formula_says(n):
    """S1.2, S2.6 b: q = beta (k_a + k_b) leads by beta; subtracting the other keys makes it 2 beta."""
    numbers = averaging(n=n, d=13, beta=6.0, seed=n).numbers
    betas = np.array(numbers["beta"])
    np.testing.assert_allclose(numbers["leak"]["k_a + k_b"], leak_formula(n, betas), atol=1e-13)
    np.testing.assert_allclose(numbers["leak"]["k_a + k_b - others"], leak_formula(n, 2 * betas), atol=1e-13)
    for m, plain, minus in zip(numbers["n"], *numbers["leak_by_n"].values()):
        assert plain == pytest.approx(leak_formula(m, 3.0), abs=1e-13)
        assert minus == pytest.approx(leak_formula(m, 6.0), abs=1e-13)
    error = numbers["error"]
    assert error["k_a + k_b - others"][-1] < error["k_a + k_b"][-1] < error["k_a + k_b"][0]


def test_leak_by_hand():
    assert leak_formula(4, 0.0) == pytest.approx(0.5)
    assert leak_formula(4, np.log(3)) == pytest.approx(0.25)


@pytest.mark.parametrize(("n", "sign"), [(5, 1), (8, 0), (12, -1)])
def test_at_equal_length_the_faster_one_is_faster_only_below_eight(n, sign):
    numbers = averaging(n=n, d=12, seed=0).numbers
    plain, minus, best = (row[-1] for row in numbers["leak_by_length"].values())
    assert np.sign(round(plain - minus, 12)) == sign
    assert best < min(plain, minus)


def test_the_best_direction_is_the_one_with_the_widest_margin():
    keys = orthonormal_rows(np.random.default_rng(0), 6, 9)
    margin = widest_margin(keys, [0, 1])
    np.testing.assert_allclose(directions(keys)["widest lead"], margin.direction, atol=1e-12)
    assert margin.low == pytest.approx(np.sqrt(0.5 + 1 / 4), abs=1e-12)


def test_the_two_weights_are_equal():
    keys = orthonormal_rows(np.random.default_rng(1), 5, 7)
    for direction in directions(keys).values():
        weights = weights_of(4 * direction, keys)
        assert weights[0] == pytest.approx(weights[1], rel=1e-12)
