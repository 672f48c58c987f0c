"""Selective prediction ("I don't know"): accuracy against coverage, and abstention thresholds tested on held-out people.

Imports no torch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from glassformer.evaluation.calibration import first_half
from glassformer.evaluation.statistics import wilson
from glassformer.foundation.estimate import Estimate

POINTS = 50  # of a saved curve


def accuracy_by_coverage(confidence_N: np.ndarray, right_N: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(coverage, accuracy) of the k most confident answers, k = 1 ... N. Ties share their mean accuracy."""
    order = np.argsort(-confidence_N, kind="stable")
    sure_N, right = confidence_N[order], right_N[order].astype(np.float64)
    # The order among ties is arbitrary, so each counts as their mean.
    _, group_N, size_G = np.unique(-sure_N, return_inverse=True, return_counts=True)
    mean_G = np.bincount(group_N, weights=right) / size_G
    many_N = np.arange(1, len(right) + 1)
    return many_N / max(1, len(right)), np.cumsum(mean_G[group_N]) / many_N


def coverage_area(confidence_N: np.ndarray, right_N: np.ndarray) -> float | None:
    """The mean accuracy over all coverages: 1 if every answer is right, the accuracy if confidence is uninformative."""
    return float(accuracy_by_coverage(confidence_N, right_N)[1].mean()) if len(confidence_N) else None


def curve(confidence_N: np.ndarray, right_N: np.ndarray) -> list[dict[str, float]]:
    """The curve as plain values, at most ``POINTS`` of them."""
    coverage, accuracy = accuracy_by_coverage(confidence_N, right_N)
    threshold = np.sort(confidence_N)[::-1]
    if not len(coverage):
        return []
    places = np.unique(np.linspace(0, len(coverage) - 1, min(POINTS, len(coverage))).astype(int))
    return [
        {"coverage": float(coverage[at]), "accuracy": float(accuracy[at]), "threshold": float(threshold[at])} for at in places
    ]


def threshold_for(confidence_N: np.ndarray, answered: float) -> float:
    """The lowest confidence at which at least the share ``answered`` of these items is still answered."""
    ordered = np.sort(confidence_N)[::-1]
    return float(ordered[max(0, int(np.ceil(answered * len(ordered))) - 1)])


def abstention(
    known_N: np.ndarray, known_ids: Sequence[str], nowhere_N: np.ndarray, nowhere_ids: Sequence[str], *, answered: float = 0.9
) -> dict[str, Any] | None:
    """A threshold that still answers the fraction ``answered`` of the known, fitted on one half, with its rates on the other.

    ``known_N``: confidences about people in the training text; ``nowhere_N``: about people who are not.
    """
    known_half, nowhere_half = first_half(known_ids), first_half(nowhere_ids)
    if not known_half.any() or known_half.all() or nowhere_half.all():
        return None
    threshold = threshold_for(known_N[known_half], answered)
    known, nowhere = known_N[~known_half], nowhere_N[~nowhere_half]
    return {
        "threshold": threshold,
        "known_answered": wilson(int((known >= threshold).sum()), len(known)).to_dict(),
        "nowhere_abstained": wilson(int((nowhere < threshold).sum()), len(nowhere)).to_dict(),
    }


def confident(confidence_N: np.ndarray, above: float = 0.5) -> Estimate:
    """The fraction of answers with confidence above ``above``."""
    return wilson(int((confidence_N > above).sum()), len(confidence_N))
