"""Calibration of confidences: reliability table, expected calibration error (ECE), temperature scaling.

The temperature is fitted on one half of the items and tested on the other; a hash of an item's id decides which half it is in,
so that all runs split alike. Imports no torch.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from glassformer.evaluation.interval_estimates import wilson

BINS = 10
_CLOSEST = 1e-9  # a confidence of exactly 0 or 1 has no log odds


def reliability(confidence_N: np.ndarray, right_N: np.ndarray, bins: int = BINS) -> list[dict[str, Any]]:
    """For each non-empty bin of confidence: bounds, count, mean confidence, accuracy."""
    bin_N = np.minimum((confidence_N * bins).astype(int), bins - 1)
    table = []
    for number in range(bins):
        inside = bin_N == number
        count = int(inside.sum())
        if count:
            accuracy = wilson(int(right_N[inside].sum()), count)
            bounds = {"low": number / bins, "high": (number + 1) / bins}
            table.append(
                {**bounds, "n": count, "confidence": float(confidence_N[inside].mean()), "accuracy": accuracy.to_dict()}
            )
    return table


def expected_calibration_error(confidence_N: np.ndarray, right_N: np.ndarray, bins: int = BINS) -> float | None:
    """The mean distance of confidence and accuracy over bins of equal width (Naeini et al. 2015); None without items."""
    if not len(confidence_N):
        return None
    bin_N = np.minimum((confidence_N * bins).astype(int), bins - 1)
    gaps = np.bincount(bin_N, weights=confidence_N - right_N, minlength=bins)
    return float(np.abs(gaps).sum() / len(confidence_N))


def with_temperature(confidence_N: np.ndarray, temperature: float) -> np.ndarray:
    """The confidences with their log odds divided by ``temperature``: above 1 they move towards one half."""
    clipped = np.clip(confidence_N, _CLOSEST, 1 - _CLOSEST)
    return np.asarray(1 / (1 + np.exp(-np.log(clipped / (1 - clipped)) / temperature)))


def fit_temperature(confidence_N: np.ndarray, right_N: np.ndarray) -> float:
    """The maximum-likelihood temperature between 1/20 and 20."""
    from scipy.optimize import minimize_scalar

    def negative_log_likelihood(log_temperature: float) -> float:
        tempered = np.clip(with_temperature(confidence_N, float(np.exp(log_temperature))), _CLOSEST, 1 - _CLOSEST)
        return -float(np.where(right_N > 0, np.log(tempered), np.log(1 - tempered)).sum())

    found = minimize_scalar(negative_log_likelihood, bounds=(-np.log(20.0), np.log(20.0)), method="bounded")
    return float(np.exp(found.x))


def first_half(ids: Sequence[str]) -> np.ndarray:
    """bool [N]: whether each item is in the half that thresholds and temperatures are fitted on."""
    return np.array([hashlib.sha256(item.encode()).digest()[0] < 128 for item in ids], dtype=bool)


def calibration(confidence_N: np.ndarray, right_N: np.ndarray, ids: Sequence[str]) -> dict[str, Any]:
    """All calibration results as plain values: reliability, ECE, and temperature scaling tested on the other half."""
    fitted = first_half(ids)
    found: dict[str, Any] = {
        "reliability": reliability(confidence_N, right_N),
        "ece": expected_calibration_error(confidence_N, right_N),
        "temperature": None,
    }
    if fitted.any() and not fitted.all():
        temperature = fit_temperature(confidence_N[fitted], right_N[fitted])
        rest, truth = confidence_N[~fitted], right_N[~fitted]
        found["temperature"] = {
            "value": temperature,
            "fitted_on": int(fitted.sum()),
            "tested_on": int((~fitted).sum()),
            "ece_before": expected_calibration_error(rest, truth),
            "ece_after": expected_calibration_error(with_temperature(rest, temperature), truth),
        }
    return found
