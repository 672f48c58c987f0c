"""Span corruption as an objective: rows as a person reads them, sizes that fit the context, a loss by line."""

from __future__ import annotations

import re

import numpy as np
import pytest
import torch

from glassformer.foundation.errors import ConfigError
from glassformer.model.losses import IGNORED, summed_cross_entropy
from glassformer.objectives.spans import SpansConfig


def test_rows_as_a_person_reads_them(prepared):
    made = prepared({"kind": "spans", "salient": 1.0, "cut": "none"})
    rows = made.objective.show(made.batches(20).batch(0), made.data.tokenizer)
    text = made.data.tokenizer.decode(made.data.part("text").split("train").tokens.tolist())
    for row in rows:
        visible, _, hidden = row.partition("<answer>")
        assert re.fullmatch(r"[A-Z1].*<end>", hidden), row
        assert visible.replace("<mask>", hidden.removesuffix("<end>")) in text


def test_many_spans_have_masks_of_their_own(prepared):
    made = prepared({"kind": "spans", "length": 3, "span": 0.3})
    rows = made.objective.show(made.batches(20).batch(0), made.data.tokenizer)
    assert any("<mask 1>" in row and row.count("<mask 1>") == 2 for row in rows)


@pytest.mark.parametrize("context", [8, 23, 128])
@pytest.mark.parametrize("length", [None, 2])
def test_rows_fit_every_context(prepared, context, length):
    made = prepared({"kind": "spans", "length": length})
    batch = made.batches(9, context=context).batch(0)
    assert batch["ids"].shape[1] <= context
    assert made.objective.count(batch) == (batch["targets"] != IGNORED).sum() > 0


def test_a_context_too_short_is_a_sentence():
    with pytest.raises(ConfigError, match=r"model\.context=6 is too short for objective\.shortest=6"):
        SpansConfig(shortest=6).rule(6, 50)


def test_the_loss_is_that_of_the_scores(prepared):
    made = prepared("spans")
    batch = made.batches().batch(0)
    expected = summed_cross_entropy(made.network(batch["ids"]), batch["targets"])
    torch.testing.assert_close(made.objective.loss(made.network, batch, dropout_seed=None, smoothing=0.0), expected)


def test_evaluation_gives_nats_by_line_and_always_the_same(prepared):
    made = prepared({"kind": "spans", "salient": 0.5})
    items = made.data.part("text").split("train")
    first, again = (made.objective.evaluate(made.network, items, made.tools) for _ in range(2))
    assert first.unit == "line"
    assert len(first.units["loss"].sums) == items.num_documents == 240
    assert first.figures["loss"].value == pytest.approx(np.log(made.data.tokenizer.size), rel=0.1)
    np.testing.assert_array_equal(first.units["loss"].sums, again.units["loss"].sums)
