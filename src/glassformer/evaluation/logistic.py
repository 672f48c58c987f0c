"""Multinomial logistic regression on sparse features, in numpy alone; deterministic.

Minimises C * sum of cross-entropies + half the squared norm of the weights (biases are not penalised), by Newton's method
with conjugate gradients; scikit-learn minimises the same loss and is the oracle in the tests. The order of summation does not
depend on the number of threads.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np

ROUNDS = 100
INNER_ROUNDS = 200
INNER_ACCURACY = 0.1  # relative, of each Newton step: inexact steps suffice far from the minimum
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

    @cached_property
    def rows(self) -> np.ndarray:
        """The row of each value."""
        return np.repeat(np.arange(len(self)), np.diff(self.starts))

    @cached_property
    def filled(self) -> np.ndarray:
        """The rows that have a value."""
        return np.flatnonzero(np.diff(self.starts))

    def times(self, weights_FC: np.ndarray) -> np.ndarray:
        """The product with a dense matrix, [N, C]."""
        product_NC = np.zeros((len(self), weights_FC.shape[1]))
        for number, column in enumerate(np.ascontiguousarray(weights_FC.T) if len(self.filled) else ()):
            product_NC[self.filled, number] = np.add.reduceat(self.values * column[self.columns], self.starts[self.filled])
        return product_NC

    def transposed_times(self, rows_NC: np.ndarray) -> np.ndarray:
        """The product of the transpose with a dense matrix, [F, C]."""
        return _by_column(self.columns, self.values, self.rows, rows_NC, self.num_columns)

    def squares_times(self, rows_NC: np.ndarray) -> np.ndarray:
        """``transposed_times`` with the values squared."""
        return _by_column(self.columns, self.values**2, self.rows, rows_NC, self.num_columns)


def _by_column(columns: np.ndarray, values: np.ndarray, rows: np.ndarray, rows_NC: np.ndarray, num_columns: int) -> np.ndarray:
    sums = [np.bincount(columns, weights=values * one[rows], minlength=num_columns) for one in np.ascontiguousarray(rows_NC.T)]
    return np.stack(sums, axis=1)


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
        found = minimise(_Loss(rows, np.eye(classes)[labels_N], c), gradient_at_end=GRADIENT_AT_END * len(rows))
        return cls(found[:-1], found[-1])

    def log_probabilities(self, rows: SparseRows) -> np.ndarray:
        return log_softmax(_for_all_classes(rows.times(self.weights) + self.bias))


def _for_all_classes(scores_NK: np.ndarray) -> np.ndarray:
    """Of two classes the first has the score 0."""
    return np.pad(scores_NK, ((0, 0), (1, 0))) if scores_NK.shape[1] == 1 else scores_NK


@final
class _Loss:
    """The loss at points [F + 1, K]: the weights of each class, and its bias in the last row."""

    def __init__(self, rows: SparseRows, wanted_NC: np.ndarray, c: float) -> None:
        self.rows, self.wanted_NC, self.c = rows, wanted_NC, c
        self.scored = 1 if wanted_NC.shape[1] == 2 else wanted_NC.shape[1]

    @property
    def start(self) -> np.ndarray:
        return np.zeros((self.rows.num_columns + 1, self.scored))

    def at(self, point: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
        """The loss, its gradient, and the probabilities [N, K] there."""
        log_NC = log_softmax(_for_all_classes(self._scores(point)))
        probabilities_NC = np.exp(log_NC)
        value = -float((log_NC * self.wanted_NC).sum()) + dot(point[:-1], point[:-1]) / (2 * self.c)
        gradient = self._back((probabilities_NC - self.wanted_NC)[:, -self.scored :], point)
        return value, gradient, probabilities_NC[:, -self.scored :]

    def hessian_times(self, direction: np.ndarray, probabilities_NK: np.ndarray) -> np.ndarray:
        """The Hessian-vector product along ``direction``, at these probabilities."""
        weighted_NK = probabilities_NK * self._scores(direction)
        return self._back(weighted_NK - probabilities_NK * weighted_NK.sum(axis=1, keepdims=True), direction)

    def hessian_diagonal(self, probabilities_NK: np.ndarray) -> np.ndarray:
        """How it bends along each number alone: words of every text are steep, rare ones flat."""
        bends_NK = probabilities_NK * (1 - probabilities_NK)
        return np.concatenate([self.rows.squares_times(bends_NK) + 1 / self.c, [bends_NK.sum(axis=0) + 1e-12]])

    def _scores(self, point: np.ndarray) -> np.ndarray:
        return self.rows.times(point[:-1]) + point[-1]

    def _back(self, rows_NK: np.ndarray, point: np.ndarray) -> np.ndarray:
        return np.concatenate([self.rows.transposed_times(rows_NK) + point[:-1] / self.c, [rows_NK.sum(axis=0)]])


def minimise(loss: _Loss, *, gradient_at_end: float) -> np.ndarray:
    """The minimum by Newton's method (Nocedal and Wright 2006, algorithm 7.1): each step by conjugate gradients, then halved
    until it goes down."""
    point = loss.start
    value, gradient, probabilities_NK = loss.at(point)
    for _ in range(ROUNDS):
        if np.abs(gradient).max() < gradient_at_end:
            break
        step = _newton_step(loss, gradient, probabilities_NK)
        slope, size = dot(step, gradient), 1.0
        found = loss.at(point + step)
        while found[0] > value + 1e-4 * size * slope and size > 1e-12:
            size /= 2
            found = loss.at(point + size * step)
        if found[0] >= value:
            break
        point = point + size * step
        value, gradient, probabilities_NK = found
    return point


def _newton_step(loss: _Loss, gradient: np.ndarray, probabilities_NK: np.ndarray) -> np.ndarray:
    """What the Hessian turns into the gradient with its sign changed, nearly, scaled by the Hessian's diagonal."""
    diagonal = loss.hessian_diagonal(probabilities_NK)
    step, left = np.zeros_like(gradient), -gradient
    scaled = left / diagonal
    direction, before = scaled, dot(left, scaled)
    enough = INNER_ACCURACY**2 * before
    for _ in range(INNER_ROUNDS):
        bent = loss.hessian_times(direction, probabilities_NK)
        bend = dot(direction, bent)
        if bend <= 0:  # all biases raised alike change nothing
            break
        step += before / bend * direction
        left = left - before / bend * bent
        scaled = left / diagonal
        now = dot(left, scaled)
        if now <= enough:
            break
        direction, before = scaled + now / before * direction, now
    return step


def dot(one: np.ndarray, other: np.ndarray) -> float:
    """The sum of products, by numpy itself: a threaded BLAS adds up in another order with another number of threads."""
    return float(np.einsum("ij,ij->", one, other))
