"""Sparse features and labels -> a multinomial logistic regression, in numpy alone; the same numbers every time.

Minimises C * sum of cross-entropies + half the squared length of the weights (biases are free), by L-BFGS with a
backtracking search; scikit-learn minimises the same sum and is the oracle in the tests. Knows nothing of texts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import final

import numpy as np

HISTORY = 20  # pairs of steps and gradient changes that L-BFGS remembers
ROUNDS = 500
GRADIENT_AT_END = 1e-5  # for each row: scikit-learn stops at ten times this


@final
@dataclass(frozen=True)
class SparseRows:
    """A sparse matrix [N, F]: row r has ``values[starts[r]:starts[r + 1]]`` in ``columns`` of the same places."""

    starts: np.ndarray
    columns: np.ndarray
    values: np.ndarray
    num_columns: int

    def __len__(self) -> int:
        return len(self.starts) - 1

    def times(self, weights_FC: np.ndarray) -> np.ndarray:
        """The product with a dense matrix, [N, C]."""
        weighted = self.values[:, None] * weights_FC[self.columns]
        sums = np.concatenate([np.zeros((1, weights_FC.shape[1])), np.cumsum(weighted, axis=0)])
        return np.asarray(sums[self.starts[1:]] - sums[self.starts[:-1]])

    def transposed_times(self, rows_NC: np.ndarray) -> np.ndarray:
        """The product of the transpose with a dense matrix, [F, C]."""
        weighted = self.values[:, None] * np.repeat(rows_NC, np.diff(self.starts), axis=0)
        columns = [
            np.bincount(self.columns, weights=weighted[:, c], minlength=self.num_columns) for c in range(rows_NC.shape[1])
        ]
        return np.stack(columns, axis=1)


def log_softmax(scores_NC: np.ndarray) -> np.ndarray:
    """Logarithms of the probabilities of each row."""
    shifted = scores_NC - scores_NC.max(axis=1, keepdims=True)
    return np.asarray(shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True)))


@final
@dataclass(frozen=True)
class LogisticRegression:
    """``weights`` [F, K] and ``bias`` [K]: a score for each class, or of two classes for the second alone."""

    weights: np.ndarray
    bias: np.ndarray

    @classmethod
    def fit(cls, rows: SparseRows, labels_N: np.ndarray, classes: int, *, c: float = 10.0) -> LogisticRegression:
        """The minimum for the labels given; ``c`` as scikit-learn's C: larger means less shrinking."""
        wanted_NC = np.eye(classes)[labels_N]
        scored = 1 if classes == 2 else classes
        size = rows.num_columns * scored

        def loss_and_gradient(point: np.ndarray) -> tuple[float, np.ndarray]:
            weights, bias = point[:size].reshape(-1, scored), point[size:]
            log_probabilities = log_softmax(_for_all_classes(rows.times(weights) + bias))
            residual = (np.exp(log_probabilities) - wanted_NC)[:, -scored:]
            loss = -float((log_probabilities * wanted_NC).sum()) + float((weights**2).sum()) / (2 * c)
            gradient = np.concatenate([(rows.transposed_times(residual) + weights / c).ravel(), residual.sum(axis=0)])
            return loss, gradient

        found = minimise(loss_and_gradient, np.zeros(size + scored), gradient_at_end=GRADIENT_AT_END * len(rows))
        return cls(found[:size].reshape(-1, scored), found[size:])

    def log_probabilities(self, rows: SparseRows) -> np.ndarray:
        return log_softmax(_for_all_classes(rows.times(self.weights) + self.bias))


def _for_all_classes(scores_NK: np.ndarray) -> np.ndarray:
    """Of two classes the first has the score 0."""
    return np.pad(scores_NK, ((0, 0), (1, 0))) if scores_NK.shape[1] == 1 else scores_NK


def minimise(
    function: Callable[[np.ndarray], tuple[float, np.ndarray]], start: np.ndarray, *, gradient_at_end: float
) -> np.ndarray:
    """The minimum of a convex, smooth function by L-BFGS (Nocedal and Wright 2006, algorithm 7.4)."""
    point, (value, gradient) = start, function(start)
    steps: list[np.ndarray] = []
    changes: list[np.ndarray] = []
    for _ in range(ROUNDS):
        if np.abs(gradient).max() < gradient_at_end:
            break
        direction = -_inverse_hessian_times(gradient, steps, changes)
        slope, size = float(direction @ gradient), 1.0 if steps else 1.0 / max(1.0, float(np.linalg.norm(gradient)))
        while True:
            candidate = point + size * direction
            new_value, new_gradient = function(candidate)
            if new_value <= value + 1e-4 * size * slope or size < 1e-12:
                break
            size /= 2
        step, change = candidate - point, new_gradient - gradient
        if float(step @ change) > 1e-12:
            steps, changes = [*steps, step][-HISTORY:], [*changes, change][-HISTORY:]
        if new_value >= value:
            break
        point, value, gradient = candidate, new_value, new_gradient
    return point


def _inverse_hessian_times(gradient: np.ndarray, steps: list[np.ndarray], changes: list[np.ndarray]) -> np.ndarray:
    """The two loops of L-BFGS."""
    vector, weights = gradient.copy(), []
    for step, change in zip(reversed(steps), reversed(changes)):
        weight = float(step @ vector) / float(step @ change)
        vector -= weight * change
        weights.append(weight)
    if steps:
        vector *= float(steps[-1] @ changes[-1]) / float(changes[-1] @ changes[-1])
    for step, change, weight in zip(steps, changes, reversed(weights)):
        vector += step * (weight - float(change @ vector) / float(step @ change))
    return vector
