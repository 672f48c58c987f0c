"""Logistic regression: scikit-learn's minimum, the products of sparse rows, the same numbers twice."""

from __future__ import annotations

import numpy as np
import pytest

from glassformer.evaluation.logistic import LogisticRegression, SparseRows


def sparse(dense_NF: np.ndarray) -> SparseRows:
    columns = [np.flatnonzero(row) for row in dense_NF]
    starts = np.concatenate([[0], np.cumsum([len(one) for one in columns])])
    values = np.concatenate([row[at] for row, at in zip(dense_NF, columns)])
    return SparseRows(starts, np.concatenate(columns), values, dense_NF.shape[1])


def problem(classes: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(classes)
    dense = rng.poisson(0.4, (70, 11)).astype(float)
    dense[3] = 0.0  # a text without a known word
    return dense, (dense[:, :classes].argmax(axis=1) + (rng.random(70) < 0.2)) % classes


def test_products_are_those_of_the_dense_matrix() -> None:
    dense, _ = problem(3)
    rng = np.random.default_rng(0)
    weights, residual = rng.normal(size=(11, 4)), rng.normal(size=(70, 4))
    np.testing.assert_allclose(sparse(dense).times(weights), dense @ weights, atol=1e-12)
    np.testing.assert_allclose(sparse(dense).transposed_times(residual), dense.T @ residual, atol=1e-12)


@pytest.mark.parametrize("classes", [2, 3, 4])
def test_scikit_learn_finds_the_same(classes: int) -> None:
    linear_model = pytest.importorskip("sklearn.linear_model")
    dense, labels = problem(classes)
    ours = LogisticRegression.fit(sparse(dense), labels, classes, c=10.0)
    theirs = linear_model.LogisticRegression(C=10.0, tol=1e-10, max_iter=10_000).fit(dense, labels)
    np.testing.assert_allclose(np.exp(ours.log_probabilities(sparse(dense))), theirs.predict_proba(dense), atol=2e-4)


def test_the_same_numbers_every_time() -> None:
    dense, labels = problem(3)
    one, again = (LogisticRegression.fit(sparse(dense), labels, 3) for _ in range(2))
    assert np.array_equal(one.weights, again.weights)


def test_no_single_number_moved_lowers_the_sum() -> None:
    dense, labels = problem(4)
    found = LogisticRegression.fit(sparse(dense), labels, 4, c=10.0)

    def summed(weights: np.ndarray, bias: np.ndarray) -> float:
        scores = LogisticRegression(weights, bias).log_probabilities(sparse(dense))
        return float(-scores[np.arange(70), labels].sum() + (weights**2).sum() / 20)

    least = summed(found.weights, found.bias)
    for place in np.ndindex(found.weights.shape):
        moved = found.weights.copy()
        moved[place] += 0.01
        assert summed(moved, found.bias) > least
