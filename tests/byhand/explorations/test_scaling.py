from __future__ import annotations

import pytest

from glassformer.byhand.explorations.scaling import scaling


def test_the_variance_of_a_dot_product_is_d_times_that_of_a_product():
    """S4: entries of standard deviation s give s^4 d; divided by sqrt(d), s^4 at every d."""
    numbers = scaling(n=7, largest=64, deviation=0.9, draws=1500, seed=3).numbers
    assert numbers["d"] == [1, 2, 4, 8, 16, 32, 64]
    assert numbers["formula"] == pytest.approx([0.9**4 * d for d in numbers["d"]])
    assert numbers["variance"]["q k"] == pytest.approx(numbers["formula"], rel=0.15)
    assert numbers["variance"]["q k / sqrt(d)"] == pytest.approx([0.9**4] * 7, rel=0.15)


def test_unscaled_softmax_saturates():
    numbers = scaling(draws=200).numbers
    assert numbers["largest_weight"]["q k"][-1] > 0.9 > 0.4 > numbers["largest_weight"]["q k / sqrt(d)"][-1]
    assert numbers["slope"]["q k"][-1] < 0.2 * numbers["slope"]["q k / sqrt(d)"][-1]
