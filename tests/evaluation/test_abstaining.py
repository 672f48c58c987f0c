"""The rule for "I don't know": fitted scores as one, its threshold, its way to the file and back."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from glassformer.evaluation.abstaining import (
    AbstainRule,
    abstention,
    accuracy_by_coverage,
    confident,
    coverage_area,
    coverage_curve,
    threshold_for,
)
from glassformer.evaluation.auc import together
from glassformer.evaluation.calibration import first_half
from glassformer.objectives.base import OBJECTIVES


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
    rule = replace(AbstainRule.fit(*scores, answered=0.9), wordings=("Where was {name} born?",), families=("Lee",))
    saved = json.loads(json.dumps({"nowhere": {"retrieved": {"rule": rule.to_dict()}}}))
    objective = OBJECTIVES.parse("answers")
    assert objective.abstain_rule(saved) == rule
    assert objective.abstain_rule({}) is None
    assert objective.abstain_rule({"nowhere": {"retrieved": {}}}) is None


def test_by_hand():
    confidence, right = np.array([0.1, 0.9, 0.5, 0.7]), np.array([0.0, 1.0, 1.0, 0.0])
    coverage, accuracy = accuracy_by_coverage(confidence, right)
    assert coverage.tolist() == [0.25, 0.5, 0.75, 1.0]
    assert accuracy == pytest.approx([1, 1 / 2, 2 / 3, 1 / 2])
    assert coverage_area(confidence, right) == pytest.approx((1 + 1 / 2 + 2 / 3 + 1 / 2) / 4)
    assert coverage_curve(confidence, right)[1] == {"coverage": 0.5, "accuracy": 0.5, "threshold": 0.7}
    assert coverage_area(np.array([]), np.array([])) is None
    assert coverage_curve(np.array([]), np.array([])) == []


def test_confidence_that_says_nothing_gives_the_accuracy_whatever_the_order():
    right = np.array([1.0, 0.0, 1.0, 0.0, 1.0])
    for order in (right, right[::-1], np.sort(right)):
        assert coverage_area(np.full(5, 0.3), order) == pytest.approx(0.6)


def test_a_threshold_leaves_its_share_answered():
    confidence = np.linspace(0, 1, 101)
    for share in (0.5, 0.9, 1.0):
        assert (confidence >= threshold_for(confidence, share)).mean() >= share
    assert threshold_for(confidence, 0.9) == pytest.approx(0.1)


def test_abstention_is_measured_on_the_other_half():
    rng = np.random.default_rng(0)
    known, nowhere = rng.uniform(0.4, 1, 600), rng.uniform(0, 0.5, 500)
    ids, nobody = [f"k{n}" for n in range(600)], [f"n{n}" for n in range(500)]
    found = abstention(known, ids, nowhere, nobody)
    half = first_half(ids)
    assert found["threshold"] == threshold_for(known[half], 0.9)
    assert found["known_answered"]["n"] == (~half).sum()
    assert found["known_answered"]["value"] == pytest.approx(0.9, abs=0.05)
    assert found["nowhere_abstained"]["value"] == pytest.approx((0.4 + 0.06) / 0.5, abs=0.05)
    assert abstention(known[:1], ids[:1], nowhere, nobody) is None


def test_confident_counts_those_above():
    assert confident(np.array([0.5, 0.51, 0.9, 0.1])).value == 0.5
