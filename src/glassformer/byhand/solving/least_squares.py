"""The usual homework answer: made-up logits -> the query that fits them best in the sense of least squares.

Kept beside the real answer so that one sees what it misses: the logits may lie outside what the keys can do, and then
nothing is promised about the weights.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from glassformer.byhand.numbers import Array
from glassformer.byhand.solving.nearest import kl_from_scores
from glassformer.byhand.weights import scores_of, weights_of

WANTED_LOGIT = 100.0  # what published answers aim at for a chosen key, 0 for the others
UNWANTED_WEIGHT = 1e-6  # stands for 0 where the goal's weights differ and their logarithms are the logits


@dataclass(frozen=True)
class LeastSquares:
    """``query`` fits ``logits`` and gives ``own_weights``; ``rescaled`` has a given length and gives ``weights``."""

    logits: Array
    query: Array
    own_weights: Array
    own_kl: float
    rescaled: Array
    weights: Array
    kl: float

    def to_dict(self) -> dict[str, Any]:
        return {
            "logits": self.logits.tolist(),
            "query": self.query.tolist(),
            "own_weights": self.own_weights.tolist(),
            "own_kl": self.own_kl,
            "rescaled_query": self.rescaled.tolist(),
            "weights": self.weights.tolist(),
            "kl": self.kl,
        }


def made_up_logits(goal: Array) -> Array:
    """100 for the wanted keys and 0 for the others; logarithms where the wanted weights differ."""
    used = goal > 0
    if np.ptp(goal[used]) <= 1e-12:
        return np.where(used, WANTED_LOGIT, 0.0)
    return np.log(np.maximum(goal, UNWANTED_WEIGHT))


def fit(keys: Array, logits: Array, scale: float) -> Array:
    """The shortest query among those with the smallest |scale K q - logits|; rounding around 0 is 0."""
    query = np.asarray(np.linalg.lstsq(scale * keys, logits, rcond=None)[0])
    size = scale * float(np.linalg.norm(keys, 2)) * float(np.linalg.norm(query))
    return query if size > 1e-12 * float(np.linalg.norm(logits)) else np.zeros_like(query)


def least_squares(keys: Array, goal: Array, scale: float, length: float, logits: Array | None = None) -> LeastSquares:
    """The fit, and the same direction with the given length."""
    aims = made_up_logits(goal) if logits is None else logits
    query = fit(keys, aims, scale)
    rescaled = with_length(query, length)
    own_kl, kl = (kl_from_scores(scores_of(q, keys, scale), goal) for q in (query, rescaled))
    own_weights, weights = (weights_of(q, keys, scale) for q in (query, rescaled))
    return LeastSquares(aims, query, own_weights, own_kl, rescaled, weights, kl)


def with_length(query: Array, length: float) -> Array:
    """The same direction; a zero query has none and stays zero."""
    norm = float(np.linalg.norm(query))
    return query * (length / norm) if norm > 0 else query
