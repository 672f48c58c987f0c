"""Calibration: by hand, and a temperature that finds the one confidences were made with."""

from __future__ import annotations

import numpy as np
import pytest

from glassformer.evaluation.calibration import (
    calibration,
    expected_calibration_error,
    first_half,
    fit_temperature,
    reliability,
    with_temperature,
)


def test_reliability_and_ece_by_hand():
    confidence, right = np.array([0.95, 0.91, 0.2, 0.28, 1.0]), np.array([1.0, 0.0, 0.0, 1.0, 1.0])
    low, high = reliability(confidence, right)
    assert (low["low"], low["high"], low["n"], low["confidence"]) == (0.2, 0.3, 2, pytest.approx(0.24))
    assert (high["n"], high["accuracy"]["value"]) == (3, pytest.approx(2 / 3))
    # |.48 - 1| + |2.86 - 2| over 5 items
    assert expected_calibration_error(confidence, right) == pytest.approx((0.52 + 0.86) / 5)
    assert expected_calibration_error(np.array([]), np.array([])) is None


def test_a_temperature_moves_log_odds_and_nothing_else():
    assert with_temperature(np.array([0.5, 0.8]), 2.0) == pytest.approx([0.5, 2 / 3])  # odds 4 -> 2
    assert with_temperature(np.array([0.0, 1.0]), 1.0) == pytest.approx([0.0, 1.0], abs=1e-6)


@pytest.mark.parametrize("temperature", [0.5, 1.0, 3.0])
def test_the_temperature_that_was_there_is_found(temperature):
    rng = np.random.default_rng(0)
    truth = rng.uniform(0.05, 0.95, 40_000)
    right = (rng.random(len(truth)) < truth).astype(float)
    said = with_temperature(truth, 1 / temperature)
    assert fit_temperature(said, right) == pytest.approx(temperature, rel=0.05)
    ids = [str(n) for n in range(len(truth))]
    found = calibration(said, right, ids)["temperature"]
    assert found["ece_after"] < 0.015
    assert found["fitted_on"] + found["tested_on"] == len(truth)


def test_halves_depend_on_the_item_alone():
    ids = [f"Where was {n} born?" for n in range(400)]
    half = first_half(ids)
    assert 150 < half.sum() < 250
    assert first_half(ids[::-1]).tolist() == half[::-1].tolist()
    assert calibration(np.array([0.5]), np.array([1.0]), ["one"])["temperature"] is None
