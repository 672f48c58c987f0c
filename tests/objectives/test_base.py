"""Objectives: every one gives batches that depend on seed and step alone, and judges by the metrics it declares."""

from __future__ import annotations

import pytest

from glassformer.foundation.errors import UnknownName
from glassformer.objectives.base import OBJECTIVES, ObjectiveConfig


@pytest.mark.parametrize("name", OBJECTIVES.names())
def test_every_objective_says_what_it_is_judged_by(name: str) -> None:
    kind = OBJECTIVES.get(name)
    assert issubclass(kind, ObjectiveConfig)
    names = [metric.name for metric in kind.metrics]
    assert len(set(names)) == len(names)
    assert kind.metrics[0].judged
    assert kind.metrics[0].margin is not None
    assert kind.judged_on in kind.reads


def test_a_metric_by_name() -> None:
    kind = OBJECTIVES.get("next-token")
    assert kind.metric(None).name == "loss"
    assert kind.metric("perplexity").judged is False
    with pytest.raises(UnknownName, match="perplexity"):
        kind.metric("perplexty")
