"""Objectives: every one gives batches that depend on seed and step alone, and judges by the metrics it declares."""

from __future__ import annotations

import pytest
from tests.refusals import refused

from glassformer.foundation.errors import UnknownName
from glassformer.objectives.base import OBJECTIVES, ObjectiveConfig


@pytest.mark.parametrize("name", OBJECTIVES.names())
def test_every_objective_says_what_it_is_judged_by(name: str) -> None:
    settings = {"parts": {"answers": {"share": 1.0}}, "judged_by": "answers"} if name == "mixture" else {}
    objective = OBJECTIVES.parse({"kind": name, **settings})
    assert isinstance(objective, ObjectiveConfig)
    names = [metric.name for metric in objective.metrics]
    assert len(set(names)) == len(names)
    assert objective.metrics[0].judged
    assert objective.metrics[0].margin is not None
    assert objective.judged_on in objective.reads


def test_a_metric_by_name() -> None:
    objective = OBJECTIVES.parse("next-token")
    assert objective.metric(None).name == "loss"
    assert objective.metric("perplexity").judged is False
    with refused(UnknownName, "unknown-name", "perplexity"):
        objective.metric("perplexty")
