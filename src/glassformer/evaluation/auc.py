"""AUC of a score with DeLong's interval, and several scores combined by logistic regression. Imports no torch."""

from __future__ import annotations

import numpy as np

from glassformer.foundation.distributions import normal_quantile
from glassformer.foundation.estimate import Estimate


def auc(positive_P: np.ndarray, negative_N: np.ndarray) -> Estimate:
    """The probability that a positive scores above a negative (ties count half), with DeLong's interval (1988)."""
    if not len(positive_P) or not len(negative_N):
        return Estimate(None, reason="one of the two groups is empty")
    above_P = _share_below(positive_P, negative_N)
    below_N = 1.0 - _share_below(negative_N, positive_P)
    area, n = float(above_P.mean()), len(positive_P) + len(negative_N)
    if min(len(positive_P), len(negative_N)) < 2:
        return Estimate(area, n=n)
    variance = above_P.var(ddof=1) / len(above_P) + below_N.var(ddof=1) / len(below_N)
    half = normal_quantile(0.975) * float(np.sqrt(variance))
    return Estimate(area, max(0.0, area - half), min(1.0, area + half), n)


def _share_below(scores: np.ndarray, others: np.ndarray) -> np.ndarray:
    """For each score the fraction of the others below it, ties counting half."""
    ordered = np.sort(others)
    below, upto = np.searchsorted(ordered, scores, side="left"), np.searchsorted(ordered, scores, side="right")
    return np.asarray((below + upto) / (2 * len(ordered)))


def fit_logistic(scores_NK: np.ndarray, label_N: np.ndarray, *, ridge: float = 1.0) -> np.ndarray:
    """Weights [K + 1] (the last is the constant) of a logistic regression on standardised scores, by Newton's method.

    The ridge keeps them finite where a score separates the groups. ``together`` standardises and applies it.
    """
    design = np.column_stack([scores_NK, np.ones(len(scores_NK))])
    weights = np.zeros(design.shape[1])
    penalty = np.diag([ridge] * scores_NK.shape[1] + [1e-6])
    for _ in range(50):
        probability = 1 / (1 + np.exp(-np.clip(design @ weights, -30, 30)))
        gradient = design.T @ (label_N - probability) - penalty @ weights
        hessian = (design * (probability * (1 - probability))[:, None]).T @ design + penalty
        step = np.linalg.solve(hessian, gradient)
        weights += step
        if np.abs(step).max() < 1e-9:
            break
    return weights


def together(fit_NK: np.ndarray, label_N: np.ndarray, other_MK: np.ndarray) -> np.ndarray:
    """One score [M] for other items, combining several by a logistic regression fitted on the first items."""
    mean, spread = fit_NK.mean(axis=0), np.maximum(fit_NK.std(axis=0), 1e-12)
    weights = fit_logistic((fit_NK - mean) / spread, label_N)
    return np.asarray(((other_MK - mean) / spread) @ weights[:-1] + weights[-1])
