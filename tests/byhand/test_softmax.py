"""Weights are those of the model's attention."""

from __future__ import annotations

import numpy as np
import torch

from glassformer.byhand.softmax import output_of, scores_of, weights_of
from glassformer.model import attention


def test_by_hand():
    keys, values = np.array([[1.0, 0], [0, 1], [0, 0]]), np.array([[1.0], [2], [4]])
    query = np.array([np.log(2), np.log(3)])
    np.testing.assert_allclose(scores_of(query, keys, 2.0), [2 * np.log(2), 2 * np.log(3), 0], rtol=1e-15)
    np.testing.assert_allclose(weights_of(query, keys), [2 / 6, 3 / 6, 1 / 6], rtol=1e-14)
    np.testing.assert_allclose(output_of(query, keys, values), [12 / 6], rtol=1e-14)


def test_one_query_several_queries_and_several_sets_of_keys_agree():
    rng = np.random.default_rng(0)
    queries, keys, values = rng.normal(size=(7, 2, 5)), rng.normal(size=(7, 3, 5)), rng.normal(size=(7, 3, 4))
    batch, outputs = weights_of(queries, keys), output_of(queries, keys, values)
    assert batch.shape == (7, 2, 3)
    for b in range(7):
        np.testing.assert_allclose(weights_of(queries[b], keys[b]), batch[b], rtol=1e-13)
        np.testing.assert_allclose(output_of(queries[b, 1], keys[b], values[b]), outputs[b, 1], rtol=1e-13, atol=1e-15)


def test_is_the_models_attention(monkeypatch):
    """There is no second implementation: when the model's function changes, so does this."""
    monkeypatch.setattr("glassformer.byhand.softmax.attention_pattern", lambda scores: torch.zeros_like(scores))
    assert not weights_of(np.ones(3), np.ones((2, 3))).any()
    assert attention.attention_pattern(torch.zeros(2)).sum() == 1
