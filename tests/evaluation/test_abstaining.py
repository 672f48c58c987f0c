"""The rule for "I don't know": fitted scores as one, its threshold, its way to the file and back."""

from __future__ import annotations

import json

import numpy as np
import pytest

from glassformer.evaluation.abstaining import AbstainRule, rule_of
from glassformer.evaluation.ranking import together


@pytest.fixture
def scores():
    rng = np.random.default_rng(0)
    known = {"sure": rng.normal(1.0, 1.0, 200), "read": rng.normal(4.0, 1.0, 200)}
    nowhere = {"sure": rng.normal(0.0, 1.0, 150), "read": rng.normal(0.0, 1.0, 150)}
    return known, nowhere


def test_it_weighs_as_the_regression_does_and_leaves_nine_in_ten_answered(scores):
    known, nowhere = scores
    rule = AbstainRule.fit(known, nowhere, answered=0.9)
    rows = np.column_stack([np.concatenate([known[name], nowhere[name]]) for name in rule.names])
    label = np.repeat([1.0, 0.0], [200, 150])
    np.testing.assert_allclose(np.concatenate([rule.score(known), rule.score(nowhere)]), together(rows, label, rows))
    assert (rule.score(known) >= rule.threshold).mean() == pytest.approx(0.9)
    assert (rule.score(nowhere) < rule.threshold).mean() > 0.97


def test_it_comes_back_from_an_evaluation_file(scores):
    rule = AbstainRule.fit(*scores, answered=0.9, wordings=("Where was {name} born?",), families=("Lee",))
    kept = json.loads(json.dumps({"nowhere": {"retrieved": {"rule": rule.to_dict()}}}))
    assert rule_of(kept) == rule
    assert rule_of({}) is None
    assert rule_of({"nowhere": {"retrieved": {}}}) is None
