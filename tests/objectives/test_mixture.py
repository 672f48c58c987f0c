"""Objectives side by side: shares of rows, the parts' own rows, judged by one; refused mixtures."""

from __future__ import annotations

import pytest
import torch
from tests.refusals import refused

from glassformer.foundation.errors import ConfigError
from glassformer.model.losses import IGNORED
from glassformer.objectives.base import OBJECTIVES

MIXED = {
    "kind": "mixture",
    "parts": {"spans": {"share": 0.75, "salient": 0.5}, "answers": {"share": 0.25}},
    "judged_by": "answers",
}


def test_rows_are_those_of_the_parts_by_their_shares(prepared):
    made = prepared(MIXED)
    assert made.objective.rows_of(16) == {"spans": 12, "answers": 4}
    batch = made.batches(16).batch(3)
    rows = made.objective.show(batch, made.data.tokenizer)
    assert all("<mask>" in row for row in rows[:12])
    assert all(row.startswith(("Where", "What", "In which")) and "<mask>" not in row for row in rows[12:])
    assert made.objective.count(batch) == (batch["targets"] != IGNORED).sum()
    assert torch.equal(batch["ids"], made.batches(16).batch(3)["ids"])
    assert torch.equal(batch["ids"], made.batches(16).on(torch.device("cpu")).batch(3)["ids"])


def test_it_reads_and_is_judged_as_its_judge(prepared):
    made = prepared(MIXED)
    assert made.objective.reads == ("text", "questions")
    assert made.objective.metric(None).name == "exact_match"
    assert made.objective.laws == {"causality", "cache"}
    found = made.objective.evaluate(made.network, made.data.split("validation"), made.tools)
    assert found.unit == "question"
    assert OBJECTIVES.parse(made.objective.to_dict()) == made.objective
    assert set(prepared("answers").objective.marks()) < set(made.objective.marks())


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        ({"parts": {"spans": {"share": 0.5}, "answers": {"share": 0.4}}}, "their sum must be 1"),
        ({"parts": {"spans": {"share": 0.5}, "answers": {}}}, "share=None must be a number"),
        ({"parts": {"spans": {"share": True}}}, "share=True must be a number"),
        ({"judged_by": "labels"}, "judged_by='labels' must be one of the parts"),
        ({"parts": {"spans": {"share": 0.5}, "answer": {"share": 0.5}}, "judged_by": "spans"}, "Did you mean 'answers'"),
        ({"parts": {"spans": {"share": 0.5}, "next-token": {"share": 0.5}}, "judged_by": "spans"}, "cannot be mixed"),
        ({"parts": {"spans": {"share": 1.0, "saliant": 0.5}}, "judged_by": "spans"}, "Did you mean 'salient'"),
    ],
)
def test_wrong_mixtures_are_a_sentence(change, rule):
    with pytest.raises(ConfigError, match=rule):
        OBJECTIVES.parse({**MIXED, **change})


def test_a_batch_too_small_for_its_parts_is_a_sentence(prepared):
    with refused(ConfigError, "batch-smaller-than-parts", "training.batch_size=1"):
        prepared(MIXED).batches(1)
