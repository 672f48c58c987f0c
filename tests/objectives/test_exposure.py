"""bench/exposure.py counts exposure as the batches of an objective themselves show it."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest

from glassformer.knowledge.questions import subject


@pytest.fixture
def exposure_of(monkeypatch):
    spec = importlib.util.spec_from_file_location("bench_exposure", Path(__file__).parents[2] / "bench" / "exposure.py")
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "bench_exposure", module)  # its dataclass looks itself up
    spec.loader.exec_module(module)
    return module.exposure_of


@pytest.mark.parametrize("settings", [{"cut": "none"}, {"salient": 0.7}, {"length": 3}])
def test_counts_are_those_of_the_rows(prepared, exposure_of, settings):
    parts = {"spans": {"share": 0.75, **settings}, "answers": {"share": 0.25}}
    made = prepared({"kind": "mixture", "parts": parts, "judged_by": "answers"})
    questions, steps = made.data.split("validation"), 70
    found = exposure_of(made.objective, made.data, questions, steps=steps, context=96, batch_size=16, seed=2)
    batches, tokenizer = made.batches(16, seed=2), made.data.tokenizer
    hidden = np.zeros(len(questions), int)
    for step in range(steps):
        rows = made.objective.show(batches.batch(step), tokenizer)[:12]
        for row in rows:
            visible, _, tail = row.partition("<answer>")
            for number, (question, answer) in enumerate(zip(questions.questions, questions.answers)):
                whole = visible.replace("<mask>", tail.removesuffix("<end>"))
                if settings.get("length") is None and subject(question) in whole and answer in tail and answer not in visible:
                    hidden[number] += 1
    assert (found.seen >= found.hidden).all()
    assert found.seen.sum() > 0
    if settings.get("length") is None:
        # A home that is the birth place, or another wording in the row, is counted otherwise by reading: few are.
        assert found.hidden.sum() == pytest.approx(hidden.sum(), rel=0.1)
        assert np.corrcoef(found.hidden, hidden)[0, 1] > 0.9


def test_without_spans_there_is_nothing_to_count(prepared, exposure_of):
    made = prepared("answers")
    items = made.data.split("validation")
    assert exposure_of(made.objective, made.data, items, steps=2, context=96, batch_size=4, seed=0) is None
