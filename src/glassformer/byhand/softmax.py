"""Queries and keys as float64 arrays -> scores, weights and outputs of the model's own attention; the KL to a goal.

Weights come from ``glassformer.model.attention`` only: there is no second softmax. The KL and its gradient are computed from
scores, without the cancellation that log(goal) - log(weights) has where both nearly agree.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from glassformer.byhand.problem import Array
from glassformer.model.attention import attend, attention_pattern, attention_scores

_LARGEST_EXPONENT = 600.0  # exp overflows at 709


def scores_of(queries: Array, keys: Array, scale: float = 1.0) -> Array:
    """scale * q.k for one query (a vector), several (rows), or several beside as many sets of keys (leading dimensions)."""
    scores = attention_scores(_tensor(np.atleast_2d(queries)), _tensor(keys), scale=scale)
    return _array(scores).reshape(*np.shape(queries)[:-1], keys.shape[-2])


def weights_of(queries: Array, keys: Array, scale: float = 1.0) -> Array:
    """The softmax weights, in the shape of the scores."""
    return _array(attention_pattern(_tensor(scores_of(queries, keys, scale))))


def output_of(queries: Array, keys: Array, values: Array, scale: float = 1.0) -> Array:
    """What attention returns: the values' mean under the weights."""
    output = attend(_tensor(np.atleast_2d(queries)), _tensor(keys), _tensor(values), scale=scale)
    return _array(output).reshape(*np.shape(queries)[:-1], values.shape[-1])


def _tensor(array: Array) -> torch.Tensor:
    return torch.as_tensor(np.ascontiguousarray(array), dtype=torch.float64)


def _array(tensor: torch.Tensor) -> Array:
    return np.asarray(tensor.detach().numpy(), dtype=np.float64)


def _relative(scores: Array, goal: Array) -> tuple[NDArray[np.bool_], Array, float]:
    """Which keys the goal uses; scores minus the goal's own log weights and mean; the KL."""
    used, largest = goal > 0, float(goal.max())
    shifted = scores.copy()
    shifted[used] -= np.log(goal[used] / largest)  # equal weights: exactly 0, and no digit of the scores is lost
    shifted[~used] += np.log(largest)
    shifted = shifted - goal[used] @ shifted[used]
    if float(shifted.max()) > _LARGEST_EXPONENT:
        top = float(shifted.max())
        total = (goal[used] * np.exp(shifted[used] - top)).sum() + np.exp(shifted[~used] - top).sum()
        return used, shifted, max(0.0, top + float(np.log(total)))
    beyond = (goal[used] * _exp_minus_line(shifted[used])).sum() + np.exp(shifted[~used]).sum()
    return used, shifted, float(np.log1p(beyond))


def kl_from_scores(scores: Array, goal: Array) -> float:
    """KL(goal || softmax(scores)) without the cancellation of log(goal) - log(weights)."""
    return _relative(scores, goal)[2]


def excess_from_scores(scores: Array, goal: Array) -> Array:
    """softmax(scores) - goal, accurate where they nearly agree."""
    used, shifted, kl = _relative(scores, goal)
    return np.where(used, goal * np.expm1(np.where(used, shifted - kl, 0.0)), np.exp(np.where(used, 0.0, shifted - kl)))


def _exp_minus_line(x: Array) -> Array:
    """exp(x) - 1 - x: by its series where subtraction would leave no digits."""
    series = x * x / 2 * (1 + x / 3 * (1 + x / 4 * (1 + x / 5 * (1 + x / 6))))
    return np.where(np.abs(x) < 1e-2, series, np.expm1(x) - x)
