"""AUC against scikit-learn, its interval by coverage, and several scores as one."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from glassformer.evaluation.auc import auc, fit_logistic, together


def test_auc_is_that_of_scikit_learn_with_ties():
    rng = np.random.default_rng(1)
    positive, negative = rng.integers(0, 6, 40).astype(float), rng.integers(-2, 5, 60).astype(float)
    oracle = roc_auc_score([1] * 40 + [0] * 60, np.concatenate([positive, negative]))
    found = auc(positive, negative)
    assert found.value == pytest.approx(oracle)
    assert found.low < oracle < found.high
    assert auc(np.array([]), negative).value is None
    assert auc(np.array([9.0]), negative).low is None


def test_the_interval_covers():
    rng = np.random.default_rng(2)
    truth, inside = 0.7602, 0  # P(N(1, 1) > N(0, 1)) = Phi(1 / sqrt 2)
    for _ in range(400):
        found = auc(rng.normal(1, 1, 60), rng.normal(0, 1, 80))
        inside += found.low <= truth <= found.high
    assert inside / 400 == pytest.approx(0.95, abs=0.035)


def test_the_regression_is_that_of_scikit_learn():
    rng = np.random.default_rng(3)
    scores = rng.normal(size=(200, 3))
    label = (scores @ [1.0, -2.0, 0.0] + rng.logistic(size=200) > 0.3).astype(float)
    oracle = LogisticRegression(C=1.0).fit(scores, label)
    assert fit_logistic(scores, label) == pytest.approx([*oracle.coef_[0], oracle.intercept_[0]], abs=1e-3)


def test_two_scores_together_beat_each_alone():
    rng = np.random.default_rng(4)
    label = np.repeat([1.0, 0.0], 300)
    scores = rng.normal(size=(600, 2)) + label[:, None]
    half = np.arange(600) % 2 == 0
    both = together(scores[half], label[half], scores[~half])
    rest = label[~half] == 1
    joint = auc(both[rest], both[~rest]).value
    assert all(joint > auc(column[rest], column[~rest]).value for column in scores[~half].T)
