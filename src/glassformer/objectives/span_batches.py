"""Lines of a text -> batches for span corruption, by step number; built on the GPU where there is one, many steps ahead.

Lines and masked spans of step n depend on (seed, n) only. Drawing and composing rows is in objectives/span_corruption.py.
"""

from __future__ import annotations

from typing import final

import numpy as np
import torch
from torch import Tensor

from glassformer.data.batches import Batch, shuffled
from glassformer.foundation.errors import DataError
from glassformer.foundation.seeds import derive_seed
from glassformer.model.losses import IGNORED
from glassformer.objectives.span_corruption import DRAWS, Draw, Lines, Marks, Rule, compose, draw

AHEAD = 64
"""Steps whose rows are drawn together from one seed; changing it changes the batches of a seed."""


@final
class SpanBatches:
    """Batches of ``rows`` corrupted lines. ``answer_only``: only the masked tokens and the end token are targets."""

    def __init__(self, lines: Lines, rule: Rule, marks: Marks, *, rows: int, seed: int, answer_only: bool) -> None:
        if not len(lines):
            raise DataError("The training text has no lines to hide something of; give more text.")
        self.lines, self.rule, self.marks = lines, rule, marks
        self.rows, self.seed, self.answer_only = rows, seed, answer_only
        self._tokens_N: Tensor | None = None
        self._device = torch.device("cpu")
        self._first, self._made = -1, torch.empty(0)
        self._together = AHEAD if rule.spans == 1 else 8  # composing rows with many spans takes more memory

    @property
    def steps_per_epoch(self) -> float:
        return len(self.lines) / self.rows

    def on(self, device: torch.device) -> SpanBatches:
        """The same batches, composed on ``device``: tokens are moved there once."""
        made = SpanBatches(self.lines, self.rule, self.marks, rows=self.rows, seed=self.seed, answer_only=self.answer_only)
        made._device = device
        return made

    def lines_of(self, first_step: int, steps: int) -> np.ndarray:
        """int64 [steps * rows]: each epoch visits every line once, in an order of its own."""
        served = np.arange(first_step * self.rows, (first_step + steps) * self.rows)
        epochs, places = np.divmod(served, len(self.lines))
        chosen = np.empty_like(served)
        for epoch in np.unique(epochs):
            here = epochs == epoch
            chosen[here] = shuffled(places[here], len(self.lines), derive_seed(self.seed, "epoch", int(epoch)))
        return chosen

    def drawn(self, block: int) -> Draw:
        """The draws for the rows of the steps from ``block * AHEAD`` on."""
        generator = np.random.Generator(np.random.PCG64(derive_seed(self.seed, "spans", block)))
        uniform = generator.random((AHEAD * self.rows, DRAWS + 2 * self.rule.spans))
        return draw(self.lines, self.lines_of(block * AHEAD, AHEAD), uniform, self.rule)

    def batch(self, step: int) -> Batch:
        first = step - step % self._together
        if first != self._first:
            self._first, self._made = first, self._rows_from(first)
        at = (step - first) * self.rows
        return as_batch(self._made[at : at + self.rows], self.marks, answer_only=self.answer_only)

    def _rows_from(self, first: int) -> Tensor:
        if self._tokens_N is None:
            self._tokens_N = torch.from_numpy(np.asarray(self.lines.tokens_N).astype(np.int32)).to(self._device)
        begin = (first % AHEAD) * self.rows
        packed = self.drawn(first // AHEAD).packed()[begin : begin + self._together * self.rows]
        return compose(self._tokens_N, torch.from_numpy(packed).to(self._device), self.marks, self.rule.width)


def as_batch(rows_BT: Tensor, marks: Marks, *, answer_only: bool) -> Batch:
    """Rows -> inputs and targets shifted by one; padding is no target."""
    targets_BT = rows_BT[:, 1:]
    nothing_BT = targets_BT == marks.pad
    if answer_only:
        before_BT = (rows_BT[:, :-1] == marks.answer).cumsum(dim=1) == 0
        nothing_BT = nothing_BT | before_BT
    return Batch(ids=rows_BT[:, :-1].contiguous(), targets=targets_BT.masked_fill(nothing_BT, IGNORED))
