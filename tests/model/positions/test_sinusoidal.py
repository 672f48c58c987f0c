"""Sinusoidal positions: numbers by hand, and the law that makes them relative."""

from __future__ import annotations

import math

import pytest
import torch

from glassformer.model.dims import Dims
from glassformer.model.positions.sinusoidal import SinusoidalConfig, sinusoids


def test_numbers_by_hand() -> None:
    table_TD = sinusoids(5, 6, base=10000.0)
    assert table_TD[0].tolist() == [0.0, 1.0, 0.0, 1.0, 0.0, 1.0]
    assert float(table_TD[3, 0]) == pytest.approx(math.sin(3.0), abs=1e-15)
    assert float(table_TD[3, 2]) == pytest.approx(math.sin(3 / 10000 ** (2 / 6)), abs=1e-15)
    assert float(table_TD[3, 3]) == pytest.approx(math.cos(3 / 10000 ** (2 / 6)), abs=1e-15)


def test_with_an_exponent_of_its_own_an_odd_number_has_another_wavelength() -> None:
    dims = Dims(width=6, heads=2, layers=1, context=5, vocabulary=7)
    own = SinusoidalConfig(exponent="own").build(dims).embed(torch.zeros(1, 1, 6, dtype=torch.float64), torch.tensor([[3]]))
    assert float(own[0, 0, 2]) == pytest.approx(math.sin(3 / 10000 ** (2 / 6)), abs=1e-6)  # even ones as ever
    assert float(own[0, 0, 3]) == pytest.approx(math.cos(3 / 10000 ** (3 / 6)), abs=1e-6)
    assert SinusoidalConfig().non_defaults() == {"kind": "sinusoidal"}


def test_products_depend_on_the_distance_alone() -> None:
    table_TD = sinusoids(40, 12, base=10000.0)
    products = table_TD @ table_TD.T
    torch.testing.assert_close(products[3, 8], products[30, 35])


def test_is_added_at_each_place_with_its_factor_and_takes_no_parameter() -> None:
    positions = SinusoidalConfig(scale=0.5).build(Dims(width=6, heads=2, layers=1, context=5, vocabulary=7))
    added = positions.embed(torch.zeros(1, 2, 6), torch.tensor([[4, 2]]))
    torch.testing.assert_close(added[0].double(), 0.5 * sinusoids(5, 6, base=10000.0)[[4, 2]], rtol=0, atol=1e-7)
    assert positions.state_dict() == {}
