"""Batches of rows with holes: a function of (seed, step), every line once an epoch, targets as told."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from glassformer.foundation.errors import DataError
from glassformer.model.losses import IGNORED
from glassformer.objectives.span_corruption import Lines, Marks, Rule
from glassformer.objectives.spans import AHEAD, SpanBatches, as_batch

TEXT = "".join(f"P{n} was born in Q{n * 7 % 11}.\n" for n in range(13))
SIGNS = sorted(set(TEXT))
V = len(SIGNS)
MARKS = Marks((V, V + 4, V + 5, V + 6), V + 1, V + 2, V + 3)


def batches(seed: int = 1, rows: int = 5, **more) -> SpanBatches:
    lines = Lines(np.array([SIGNS.index(sign) for sign in TEXT]), np.array([0]), SIGNS, salient=True)
    settings = {"shortest": 4, "longest": 20, "random_cut": False, "mean_share": 0.25, "mean_span": None, "salient": 0.5}
    return SpanBatches(lines, Rule(**{**settings, **more}, start="line"), MARKS, rows=rows, seed=seed, answer_only=False)


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


def test_a_text_without_lines_is_a_sentence():
    lines = Lines(np.zeros(0, dtype=int), np.zeros(0, dtype=int), SIGNS, salient=False)
    with pytest.raises(DataError, match="no lines"):
        SpanBatches(lines, batches().rule, MARKS, rows=2, seed=0, answer_only=False)
