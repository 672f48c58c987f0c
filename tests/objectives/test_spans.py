"""Span corruption as an objective: rows as a person reads them, sizes that fit the context, a loss by line."""

from __future__ import annotations

import re

import numpy as np
import pytest
import torch
from tests.refusals import refused

from glassformer.foundation.errors import ConfigError, DataError
from glassformer.model.losses import IGNORED, summed_cross_entropy
from glassformer.objectives.span_rows import Marks, SpanRule, TextLines
from glassformer.objectives.spans import AHEAD, SpanBatches, SpansConfig, as_batch


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
    with refused(ConfigError, "context-too-short", "model.context=6", "objective.shortest=6"):
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


TEXT = "".join(f"P{n} was born in Q{n * 7 % 11}.\n" for n in range(13))
SIGNS = sorted(set(TEXT))
V = len(SIGNS)
MARKS = Marks((V, V + 4, V + 5, V + 6), V + 1, V + 2, V + 3)


def batches(seed: int = 1, rows: int = 5, **more) -> SpanBatches:
    lines = TextLines(np.array([SIGNS.index(sign) for sign in TEXT]), np.array([0]), SIGNS, salient=True)
    settings = {"shortest": 4, "longest": 20, "random_cut": False, "mean_share": 0.25, "mean_span": None, "salient": 0.5}
    return SpanBatches(lines, SpanRule(**{**settings, **more}, start="line"), MARKS, rows=rows, seed=seed, answer_only=False)


@pytest.mark.parametrize("many", [None, 2])
def test_a_batch_depends_on_seed_and_step_alone(many):
    one, other = batches(mean_span=many), batches(mean_span=many)
    for step in (0, 3, AHEAD - 1, AHEAD, 2 * AHEAD + 7):
        one.batch(step + 1)
        assert torch.equal(one.batch(step)["ids"], other.batch(step)["ids"])
    assert torch.equal(one.batch(9)["ids"], one.on(torch.device("cpu")).batch(9)["ids"])
    assert not torch.equal(one.batch(0)["ids"], batches(seed=2, mean_span=many).batch(0)["ids"])
    assert not torch.equal(one.batch(0)["ids"], one.batch(AHEAD)["ids"])


def test_every_line_comes_once_an_epoch():
    made = batches()
    served = made.lines_of(0, 13)  # 65 rows are five epochs of 13 lines
    for epoch in range(5):
        assert sorted(served[13 * epoch : 13 * (epoch + 1)]) == list(range(13))
    assert made.steps_per_epoch == 13 / 5
    np.testing.assert_array_equal(made.lines_of(4, 2), served[20:30])


def test_targets_are_the_next_tokens_without_padding():
    batch = batches().batch(0)
    ids, targets = batch["ids"], batch["targets"]
    kept = targets != IGNORED
    assert torch.equal(ids[:, 1:][kept[:, :-1]], targets[:, :-1][kept[:, :-1]])
    assert not (targets == MARKS.pad).any()
    assert (targets == MARKS.end).sum() == 5
    only = as_batch(torch.cat([ids, torch.full((5, 1), MARKS.pad)], dim=1), MARKS, answer_only=True)["targets"]
    for row in range(5):
        at = ids[row].tolist().index(MARKS.answer)
        assert (only[row, :at] == IGNORED).all()
        assert only[row, at] == targets[row, at] != IGNORED


def test_a_text_without_lines_is_a_sentence(prepared, monkeypatch):
    made = prepared("spans")
    monkeypatch.setattr(TextLines, "__len__", lambda self: 0)
    with refused(DataError, "no-lines"):
        made.batches()


def test_rows_of_the_exercise(prepared):
    """One mask before the span and one in its place, no end, padded to the block."""
    made = prepared({"kind": "spans", "sentinels": "mask", "cut": "none"})
    tokenizer = made.data.tokenizer
    assert {"<mask>", "<pad>"} <= {*tokenizer.marks}
    assert not {"<answer>", "<end>"} & {*tokenizer.marks}
    batch = made.batches(20, context=64).batch(0)
    assert batch["ids"].shape[1] == 64 - 1
    text = tokenizer.decode(made.data.part("text").split("train").tokens.tolist())
    for row in made.objective.show(batch, tokenizer):
        prefix, suffix, span = row.split("<mask>")
        assert prefix + span + suffix in text
    rows = torch.cat([batch["ids"], torch.full((20, 1), tokenizer.mark_id("<pad>"))], dim=1)
    only = as_batch(rows, made.objective.mark_ids(tokenizer), answer_only=True)["targets"]
    spans = [row.split("<mask>")[2] for row in made.objective.show(batch, tokenizer)]
    assert [tokenizer.decode([token for token in row if token != IGNORED]) for row in only.tolist()] == spans


@pytest.mark.parametrize("form", ["row", "pair"])
def test_spans_of_t5_follow_their_own_masks(prepared, form):
    made = prepared({"kind": "spans", "sentinels": "t5", "length": 3, "span": 0.3, "cut": "none"})
    objective = made.objective.model_copy(update={"form": form})
    batch = made.batches(20).batch(0)
    rows = torch.cat([batch["ids"], torch.full((20, 1), made.data.tokenizer.mark_id("<pad>"))], dim=1)
    if form == "pair":
        pairs = as_batch(rows, objective.mark_ids(made.data.tokenizer), answer_only=False, start=0)
        assert (pairs["targets"][:, 0] == made.data.tokenizer.mark_id("<mask>")).all()
        return
    text = made.data.tokenizer.decode(made.data.part("text").split("train").tokens.tolist())
    for row in objective.show(batch, made.data.tokenizer):
        begin = row.rindex("<mask>")
        seen, pieces = row[:begin], re.split(r"(<mask[ \d]*>)", row[begin:])[1:]
        masks, spans = pieces[::2], pieces[1::2]
        assert masks == ["<mask>", *(f"<mask {number}>" for number in range(1, len(masks)))]
        assert not spans[-1], "the last mask ends the row"
        for mask, span in zip(masks, spans):
            seen = seen.replace(mask, span)
        assert seen in text


def test_one_mask_cannot_mark_many_spans():
    with refused(ConfigError, "mask-of-one-span"):
        SpansConfig(sentinels="mask", length=3)
