"""Span corruption: a masked span of a line is predicted at its end."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar, Literal, final

import numpy as np
import torch
from pydantic import Field
from torch import Tensor

from glassformer.data.batches import Batch
from glassformer.data.tokenizers.base import Tokenizer
from glassformer.evaluation.language import evaluating
from glassformer.evaluation.outcomes import Outcomes, Units
from glassformer.evaluation.tools import EvaluationTools
from glassformer.foundation.errors import ConfigError, DataError
from glassformer.foundation.metrics import LOSS, Metric
from glassformer.foundation.seeds import derive_seed
from glassformer.model.losses import IGNORED, token_cross_entropy
from glassformer.model.network import Network
from glassformer.objectives.base import OBJECTIVES, Data, ObjectiveConfig
from glassformer.objectives.span_batches import SpanBatches, as_batch
from glassformer.objectives.span_corruption import DRAWS, Lines, Marks, Rule, Start, compose, draw

MASK, ANSWER, END, PAD = "<mask>", "<answer>", "<end>", "<pad>"


@OBJECTIVES.variant("spans")
@final
class SpansConfig(ObjectiveConfig):
    """A hidden span of a line is written after it: ``prefix <mask> suffix <answer> span <end>`` (or T5's many spans).

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

    def marks(self) -> tuple[str, ...]:
        return (MASK, ANSWER, END, PAD, *(f"<mask {number}>" for number in range(1, self._most_spans())))

    def _most_spans(self) -> int:
        """The most spans a row can have, for contexts up to 1024 tokens."""
        return 1 if self.length is None else max(1, round(1024 * self.span / self.length))

    def rule(self, context: int, longest_line: int) -> Rule:
        """How rows for this context are drawn; not wider than the longest line needs."""
        mean = self.length
        for longest in range(min(int(self.longest * context), max(longest_line, self.shortest)), self.shortest - 1, -1):
            rule = Rule(self.shortest, longest, self.cut == "random", self.span, mean, self.salient, self.start)
            if rule.width <= context + 1 and rule.spans <= self._most_spans():
                return rule
        raise ConfigError(
            f"model.context={context} is too short for objective.shortest={self.shortest} tokens and their marks; enlarge it."
        )

    def batches(self, data: Data, *, context: int, batch_size: int, seed: int) -> SpanBatches:
        text = data.part("text").split("train")
        lines = Lines(text.tokens, text.starts, texts_of(data.tokenizer), salient=self.salient > 0)
        if not len(lines):
            raise DataError("The training text has no lines to hide something of; give more text.")
        rule = self.rule(context, int(lines.lengths_R.max()))
        answer_only = self.learn == "answer"
        return SpanBatches(lines, rule, self.mark_ids(data.tokenizer), rows=batch_size, seed=seed, answer_only=answer_only)

    def mark_ids(self, tokenizer: Tokenizer) -> Marks:
        answer, end, pad = (tokenizer.mark_id(mark) for mark in (ANSWER, END, PAD))
        return Marks(tuple(tokenizer.mark_id(mark) for mark in self.marks() if mark.startswith("<mask")), answer, end, pad)

    def count(self, batch: Batch) -> Tensor:
        return (batch["targets"] != IGNORED).sum()

    def loss(self, network: Network, batch: Batch, *, dropout_seed: Tensor | None, smoothing: float) -> Tensor:
        return batch_loss(network, batch, dropout_seed=dropout_seed, smoothing=smoothing)

    def evaluate(self, network: Network, items: Any, tools: EvaluationTools) -> Outcomes:
        """Nats per masked token of every line, each with a fixed span."""
        sums, counts = [], []
        for batch in self._fixed_rows(items, tools):
            targets_BT = batch["targets"].to(_device_of(network))
            with evaluating(network), torch.no_grad():
                scores_BTV = network.head(network.features(batch["ids"].to(targets_BT.device))).float()
            nats_BT = torch.nn.functional.cross_entropy(
                scores_BTV.flatten(0, 1), targets_BT.flatten(), ignore_index=IGNORED, reduction="none"
            ).view_as(targets_BT)
            sums.append(nats_BT.double().sum(dim=1).cpu().numpy())
            counts.append((targets_BT != IGNORED).sum(dim=1).cpu().numpy())
            tools.progress(batch.rows)
        units = {LOSS.name: Units(np.concatenate(sums), np.concatenate(counts).astype(np.float64))}
        return Outcomes.of_units(units, unit="line")

    def evaluation_settings(self, items: Any, tools: EvaluationTools) -> dict[str, Any]:
        _, rule = self._lines_and_rule(items, tools)
        settings = {f"objective.{key}": getattr(self, key) for key in ("start", "cut", "shortest", "span", "length", "salient")}
        return {"objective": self.kind, **settings, "longest row, by model.context and objective.longest": rule.longest}

    def _lines_and_rule(self, items: Any, tools: EvaluationTools) -> tuple[Lines, Rule]:
        lines = Lines(items.tokens, items.starts, texts_of(tools.tokenizer), salient=self.salient > 0)
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
            yield as_batch(rows, marks, answer_only=True)

    def show(self, batch: Batch, tokenizer: Tokenizer) -> list[str]:
        return shown_rows(batch, tokenizer)


def batch_loss(network: Network, batch: Batch, *, dropout_seed: Tensor | None, smoothing: float) -> Tensor:
    """The summed cross-entropy of a batch's targets."""
    features_BTD = network.features(batch["ids"], dropout_seed=dropout_seed)
    outputs = network.dims.num_outputs
    return token_cross_entropy(network.head, features_BTD, batch["targets"], outputs=outputs, smoothing=smoothing)


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


def _device_of(network: Any) -> torch.device:
    return next(network.parameters()).device
