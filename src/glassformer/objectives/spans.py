"""The objective ``spans``: a masked span of a line is predicted at its end; its batches and its evaluation.

Lines and masked spans of step n depend on (seed, n) only. ``span_corruption`` draws and composes the rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from typing import Any, ClassVar, Literal, Self, final

import numpy as np
import torch
from pydantic import Field, model_validator
from torch import Tensor

from glassformer.data.batches import Batch, shuffled
from glassformer.data.data_kinds import PreparedData
from glassformer.data.pairs.pair_batches import START
from glassformer.data.tokenizers.base import MASK, Tokenizer
from glassformer.evaluation.results import EvaluationTools, Outcomes, Units
from glassformer.foundation.errors import ConfigError, DataError
from glassformer.foundation.metrics import LOSS, Metric
from glassformer.foundation.seeds import derive_seed
from glassformer.model.losses import IGNORED
from glassformer.model.network import Network
from glassformer.objectives.base import OBJECTIVES, ObjectiveConfig
from glassformer.objectives.span_rows import DRAWS, Draw, Marks, SpanRule, Start, TextLines, compose, draw
from glassformer.objectives.token_targets import row_nats, row_targets, shown_pairs

ANSWER, END, PAD = "<answer>", "<end>", "<pad>"
AHEAD = 64
"""Steps whose rows are drawn together from one seed; changing it changes the batches of a seed."""


@OBJECTIVES.variant("spans")
@final
class SpansConfig(ObjectiveConfig):
    """A span of a line is hidden and predicted after it: ``prefix <mask> suffix <answer> span <end>`` (or T5's many spans).

    Every token of the row predicts the next one, unless ``learn`` is ``answer``.
    """

    laws: ClassVar[frozenset[str]] = frozenset({"causality"})
    metrics: ClassVar[tuple[Metric, ...]] = (LOSS,)

    start: Start = "line"
    """``line``: rows begin where lines do. ``title``: a line too long for a row is read as its title (up to the first full
    stop) and a later piece. ``anywhere``: rows begin at any token, which cuts names off from their facts."""
    cut: Literal["random", "none"] = "random"
    """``random``: a row is cut to a random length between ``shortest`` tokens and ``longest`` of the context."""
    shortest: int = Field(default=4, ge=2)
    longest: float = Field(default=0.875, gt=0, le=1)
    span: float = Field(default=0.25, gt=0, lt=1)
    """The mean share of a row that is hidden."""
    length: int | None = Field(default=None, ge=1)
    """None: one span. A number: many spans of this mean length, each with a mask of its own, as in T5."""
    salient: float = Field(default=0.0, ge=0, le=1)
    """The share of rows whose hidden span is a capitalised name or a year."""
    learn: Literal["all", "answer"] = "all"
    form: Literal["row", "pair"] = "row"
    """``row``: a decoder reads the text and writes its spans in one row. ``pair``: an encoder reads the text with its masks, a
    decoder writes the spans (T5; model.kind: encoder-decoder). The same spans of the same lines in both."""

    sentinels: Literal["answer", "mask", "t5"] = "answer"
    """``mask``: ``prefix <mask> suffix <mask> span``, padded to the context, for one span (Stanford CS224N). ``t5``: each span
    follows its own mask, and the next mask ends the row (Raffel et al. 2020)."""

    @model_validator(mode="after")
    def _validate_sentinels(self) -> Self:
        if self.sentinels == "mask" and (self.length is not None or self.form == "pair"):
            raise ConfigError(
                "objective.sentinels=mask is a row with one span, without an end; for many spans or form=pair choose t5.",
                reason="mask-of-one-span",
            )
        return self

    @property
    def reads_source(self) -> bool:  # type: ignore[override]
        return self.form == "pair"

    def marks(self) -> tuple[str, ...]:
        masks = (f"<mask {number}>" for number in range(1, self._most_spans() + (self.sentinels == "t5")))
        start = (START,) if self.form == "pair" else ()
        return (MASK, *((ANSWER, END) if self.sentinels == "answer" else ()), PAD, *masks, *start)

    def _most_spans(self) -> int:
        """The most spans a row can have, for contexts up to 1024 tokens."""
        return 1 if self.length is None else max(1, round(1024 * self.span / self.length))

    def rule(self, context: int, longest_line: int) -> SpanRule:
        """How rows for this context are drawn; not wider than the longest line needs."""
        mean = self.length
        for longest in range(min(int(self.longest * context), max(longest_line, self.shortest)), self.shortest - 1, -1):
            block = context if self.sentinels == "mask" else 0
            rule = SpanRule(self.shortest, longest, self.cut == "random", self.span, mean, self.salient, self.start, block)
            if rule.width <= context + 1 and rule.spans <= self._most_spans():
                return rule
        raise ConfigError(
            f"model.context={context} is too short for objective.shortest={self.shortest} tokens and their marks; enlarge it.",
            reason="context-too-short",
        )

    def batches(self, data: PreparedData, *, context: int, batch_size: int, seed: int) -> SpanBatches:
        text = data.part("text").split("train")
        lines = TextLines(text.tokens, text.starts, texts_of(data.tokenizer), salient=self.salient > 0)
        if not len(lines):
            raise DataError("The training text has no lines to hide spans in; give more text.", reason="no-lines")
        rule = self.rule(context, int(lines.lengths_R.max()))
        answer_only = self.learn == "answer"
        marks, start = self.mark_ids(data.tokenizer), self._start_id(data.tokenizer)
        return SpanBatches(lines, rule, marks, rows=batch_size, seed=seed, answer_only=answer_only, start=start)

    def _start_id(self, tokenizer: Tokenizer) -> int | None:
        """The first id that a decoder reads, where an encoder reads the text; None where all is one row."""
        return tokenizer.mark_id(START) if self.form == "pair" else None

    def mark_ids(self, tokenizer: Tokenizer) -> Marks:
        masks, pad = tuple(tokenizer.mark_id(mark) for mark in self.marks() if mark.startswith("<mask")), tokenizer.mark_id(PAD)
        if self.sentinels == "answer":
            return Marks(masks, tokenizer.mark_id(ANSWER), tokenizer.mark_id(END), pad)
        return Marks(masks, masks[0], pad if self.sentinels == "mask" else None, pad)

    def evaluate(self, network: Network, items: Any, tools: EvaluationTools) -> Outcomes:
        """Nats per masked token of every line, each with a fixed span."""

        def measured(batch: Batch) -> tuple[np.ndarray, np.ndarray]:
            tools.progress(batch.rows)
            return row_nats(network, batch), row_targets(batch)

        sums, counts = zip(*tools.shared(self._fixed_rows(items, tools), measured))
        units = {LOSS.name: Units(np.concatenate(sums), np.concatenate(counts).astype(np.float64))}
        return Outcomes.of_units(units, unit="line")

    def evaluation_settings(self, items: Any, tools: EvaluationTools) -> dict[str, Any]:
        _, rule = self._lines_and_rule(items, tools)
        # Not ``form``: both forms hide the same spans of the same lines, so a row and a pair are judged on the same tokens.
        settings = {f"objective.{key}": getattr(self, key) for key in ("start", "cut", "shortest", "span", "length", "salient")}
        settings |= {} if self.sentinels == "answer" else {"objective.sentinels": self.sentinels}
        return {"objective": self.kind, **settings, "longest row, by model.context and objective.longest": rule.longest}

    def _lines_and_rule(self, items: Any, tools: EvaluationTools) -> tuple[TextLines, SpanRule]:
        lines = TextLines(items.tokens, items.starts, texts_of(tools.tokenizer), salient=self.salient > 0)
        return lines, self.rule(tools.context, int(lines.lengths_R.max()))

    def _fixed_rows(self, items: Any, tools: EvaluationTools) -> Iterator[Batch]:
        (lines, rule), marks = self._lines_and_rule(items, tools), self.mark_ids(tools.tokenizer)
        generator = np.random.Generator(np.random.PCG64(derive_seed(0, "spans", "evaluation")))
        uniform = generator.random((len(lines), DRAWS + 2 * rule.spans))
        packed = draw(lines, np.arange(len(lines)), uniform, rule).packed()
        tokens_N = torch.from_numpy(np.asarray(lines.tokens_N).astype(np.int32))
        for begin in range(0, len(lines), tools.batch_size):
            tools.keep_going()
            rows = compose(tokens_N, torch.from_numpy(packed[begin : begin + tools.batch_size]), marks, rule.width)
            yield as_batch(rows, marks, answer_only=True, start=self._start_id(tools.tokenizer))

    def show(self, batch: Batch, tokenizer: Tokenizer) -> list[str]:
        return shown_rows(batch, tokenizer) if self.form == "row" else shown_pairs(batch, tokenizer)


@final
class SpanBatches:
    """Batches of ``rows`` corrupted lines. ``answer_only``: only the masked tokens and the end token are targets.

    ``start``: the text and its spans are two sequences, and this id begins the second."""

    def __init__(
        self,
        lines: TextLines,
        rule: SpanRule,
        marks: Marks,
        *,
        rows: int,
        seed: int,
        answer_only: bool,
        start: int | None = None,
    ) -> None:
        self.lines, self.rule, self.marks, self.start = lines, rule, marks, start
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
        made = copy(self)
        made._device, made._tokens_N, made._first = device, None, -1
        return made

    def lines_of(self, first_step: int, steps: int) -> np.ndarray:
        """int64 [steps * rows]: the lines of each step."""
        return items_of_steps(first_step, steps, rows=self.rows, size=len(self.lines), seed=self.seed, purpose="epoch")

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
        return as_batch(self._made[at : at + self.rows], self.marks, answer_only=self.answer_only, start=self.start)

    def _rows_from(self, first: int) -> Tensor:
        if self._tokens_N is None:
            self._tokens_N = torch.from_numpy(np.asarray(self.lines.tokens_N).astype(np.int32)).to(self._device)
        begin = (first % AHEAD) * self.rows
        packed = self.drawn(first // AHEAD).packed()[begin : begin + self._together * self.rows]
        return compose(self._tokens_N, torch.from_numpy(packed).to(self._device), self.marks, self.rule.width)


def as_batch(rows_BT: Tensor, marks: Marks, *, answer_only: bool, start: int | None = None) -> Batch:
    """Rows -> inputs and targets shifted by one; padding is no target. ``start``: see ``as_pairs``."""
    if start is not None:
        return as_pairs(rows_BT, marks, start)
    targets_BT = rows_BT[:, 1:]
    nothing_BT = targets_BT == marks.pad
    if answer_only:
        before_BT = (rows_BT[:, :-1] == marks.answer).cumsum(dim=1) < marks.openings
        nothing_BT = nothing_BT | before_BT
    return Batch(ids=rows_BT[:, :-1].contiguous(), targets=targets_BT.masked_fill(nothing_BT, IGNORED))


def as_pairs(rows_BT: Tensor, marks: Marks, start: int) -> Batch:
    """Rows cut at the ANSWER mark: the text with its masks is the source; ``start``, its spans and the end are the target, in
    which T5's first span follows its mask."""
    width = rows_BT.shape[1]
    places_T = torch.arange(width, device=rows_BT.device)
    begun_BT = (rows_BT == marks.answer).cumsum(dim=1) == marks.openings
    answer_B1 = begun_BT.int().argmax(dim=1, keepdim=True)
    source_BS = rows_BT.masked_fill(places_T >= answer_B1, marks.pad)[:, :-1].contiguous()
    after_BT = answer_B1 + (marks.openings == 1) + places_T[:-1]  # the spans, moved to the beginning of their row
    spans_BT = rows_BT.gather(1, after_BT.clamp(max=width - 1)).masked_fill(after_BT >= width, marks.pad)
    first_B1 = torch.full_like(spans_BT[:, :1], start)
    return Batch(
        ids=torch.cat([first_B1, spans_BT[:, :-1]], dim=1),
        targets=spans_BT.masked_fill(spans_BT == marks.pad, IGNORED),
        source_ids=source_BS,
        source_padding=source_BS == marks.pad,
    )


def items_of_steps(first_step: int, steps: int, *, rows: int, size: int, seed: int, purpose: str) -> np.ndarray:
    """int64 [steps * rows]: the items of each step; each epoch visits all ``size`` of them once, in an order of its own."""
    epochs, places = np.divmod(np.arange(first_step * rows, (first_step + steps) * rows), size)
    for epoch in np.unique(epochs):
        here = epochs == epoch
        places[here] = shuffled(places[here], size, derive_seed(seed, purpose, int(epoch)))
    return places


def answer_marks(tokenizer: Tokenizer) -> tuple[int, int]:
    """The ids before and after an answer: both are the mask where rows have no marks of their own (``sentinels: mask``)."""
    before, after = (ANSWER, END) if ANSWER in tokenizer.marks else (MASK, MASK)
    return tokenizer.mark_id(before), tokenizer.mark_id(after)


def texts_of(tokenizer: Tokenizer) -> list[str]:
    """The text of each id."""
    return [tokenizer.decode([token_id]) for token_id in range(tokenizer.size)]


def shown_rows(batch: Batch, tokenizer: Tokenizer) -> list[str]:
    """Each row as text: its targets, and the row without padding."""
    pad = tokenizer.mark_id(PAD)
    shown = []
    for ids, targets in zip(batch["ids"].tolist(), batch["targets"].tolist()):
        row = [token_id for token_id in (*ids, *[target for target in targets[-1:] if target != IGNORED]) if token_id != pad]
        learned = [target for target in targets if target != IGNORED]
        part = "" if len(learned) >= len(row) - 1 else f"   (learned: {tokenizer.decode(learned)})"
        shown.append(f"{tokenizer.decode(row)}{part}")
    return shown
