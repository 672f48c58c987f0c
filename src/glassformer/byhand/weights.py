"""Queries and keys as float64 arrays -> the scores, weights and outputs of the model's own attention.

The only door between the arrays of attention by hand and ``glassformer.model.attention``: there is no second softmax.
"""

from __future__ import annotations

import numpy as np
import torch

from glassformer.byhand.numbers import Array
from glassformer.model.attention import attend, attention_pattern, attention_scores


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
