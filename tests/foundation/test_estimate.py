"""Numbers with their uncertainty: the JSON of the contract, there and back, and what people read."""

from __future__ import annotations

import math

import pytest

from glassformer.foundation.estimate import Estimate


def test_the_json_of_the_contract() -> None:
    assert Estimate(1.5, 1.0, 2.0, 7).to_dict() == {"value": 1.5, "low": 1.0, "high": 2.0, "n": 7}
    assert Estimate(None, reason="no bytes").to_dict() == {
        "value": None,
        "low": None,
        "high": None,
        "n": 0,
        "reason": "no bytes",
    }


def test_an_interval_is_cut_at_the_range_of_its_metric() -> None:
    assert Estimate(0.9, 0.7, 1.1, 3).within((0.0, 1.0)) == Estimate(0.9, 0.7, 1.0, 3)
    assert Estimate(0.1, -0.1, 0.3, 3).within((0.0, 1.0)) == Estimate(0.1, 0.0, 0.3, 3)
    for unchanged in (Estimate(0.9, 0.8, 0.95, 3), Estimate(0.9, n=1), Estimate(None, reason="none")):
        assert unchanged.within((0.0, 1.0)) == unchanged
    assert Estimate(0.9, 0.7, 1.1, 3).within(None) == Estimate(0.9, 0.7, 1.1, 3)


@pytest.mark.parametrize("estimate", [Estimate(1.5, 1.0, 2.0, 7), Estimate(3.25, n=1), Estimate(None, reason="no bytes")])
def test_there_and_back(estimate: Estimate) -> None:
    assert Estimate.from_dict(estimate.to_dict()) == estimate


@pytest.mark.parametrize(
    ("number", "shown"),
    [
        (0.0, "0.0000"),
        (0.5, "0.5000"),
        (2.34567, "2.346"),
        (-12.3456, "-12.35"),
        (123.456, "123.5"),
        (1234.56, "1235"),
        (9_876_543.0, "9876543"),
        (0.0123456, "0.01235"),
        (0.000123456, "0.0001235"),
        (0.0000123456, "1.235e-05"),
        (12_345_678.0, "1.235e+07"),
        (math.inf, "inf"),
        (math.nan, "nan"),
    ],
)
def test_four_digits_for_people(number: float, shown: str) -> None:
    assert str(Estimate(number)) == shown


def test_with_its_interval_and_without_a_value() -> None:
    assert str(Estimate(2.5, 2.25, 2.75, 9)) == "2.500 [2.250, 2.750]"
    assert str(Estimate(None)) == "not defined"
    assert str(Estimate(None, reason="one document")) == "not defined (one document)"
