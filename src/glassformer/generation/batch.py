"""Sequences -> the same sequences to their ends, many at once with one KV cache: the plain path, on any device.

A sequence takes a free row of the batch; its window is read into the cache (prefill); each step gives every row one more
token; a sequence that ends leaves its row to the next. The cache adds the same numbers in another order than the reference
implementation, so scores differ in their last bits. Each choice therefore says whether it is sure (sampling.py); one that
is not is made by the reference (reference.py). So in float32 the tokens are the reference's own. In bf16 rounding is too coarse
for that: no choice is recomputed, and the tokens may differ. generation/cuda does the same, faster.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor, nn

from glassformer.generation.reference import choose_next, next_scores, seen_ids
from glassformer.generation.sampling import Sampling, choose
from glassformer.generation.sequence import TokenSequence
from glassformer.model.transformer import Transformer

SLACK, CAUTION = 1e-5, 20.0
"""A choice is sure if no score off by ``SLACK`` of the largest one, or by ``CAUTION`` times the largest difference seen
between the two ways to compute it, could change it; docs/generation.md says what was measured."""
COMPARED = 2
"""Sequences whose first token is always computed both ways, to see how much the ways differ in this model."""
PREFILL_TOKENS = {"cpu": 1 << 12, "cuda": 1 << 16}
"""Tokens (with padding) read in one pass: enough to keep the machine busy, little enough to fit."""


@dataclass(slots=True)
class BatchRow:
    """A row of the batch and the sequence in it. ``start``: where the window begins that the cache holds."""

    sequence: TokenSequence
    start: int = -1

    @property
    def ended(self) -> bool:
        return self.sequence.reason is not None


@final
class BatchDecoder:
    """A batch of sequences, a row each, and their KV cache."""

    def __init__(self, model: Transformer, sampling: Sampling, *, rows: int, capacity: int) -> None:
        self.model, self.sampling, self.max_rows = model, sampling, rows
        self.device, self.recompute_unsure = model.embedding.weight.device, rounds_as_float32(model)
        self.cache = model.new_cache(capacity=capacity, rows=rows)
        self.rows: list[BatchRow] = []
        self.slack, self.to_compare = torch.tensor(SLACK, device=self.device), COMPARED if self.recompute_unsure else 0
        self.reference_scores: dict[int, Tensor] = {}  # scores by the reference, by row, for this step
        self.scores_BV: Tensor | None = None
        """Of the last step, a row each."""

    def run(self, sequences: Iterable[TokenSequence]) -> None:
        waiting = (BatchRow(sequence) for sequence in sequences if sequence.reason is None)
        while self._fill_rows(waiting):
            self._prefill([row for row, one in enumerate(self.rows) if one.start != one.sequence.start])
            self._step()

    def _fill_rows(self, waiting: Iterator[BatchRow]) -> bool:
        """Waiting sequences take free rows; rows that stay free are taken out of the batch. False: all have ended."""
        for row, new in zip([row for row, one in enumerate(self.rows) if one.ended], waiting):
            self.rows[row] = new
        self.rows += [new for _, new in zip(range(self.max_rows - len(self.rows)), waiting)]
        active = [row for row, one in enumerate(self.rows) if not one.ended]
        if len(active) < len(self.rows):
            last = [row for row in active if row >= len(active)]  # they fill the gaps, so that few rows move
            order = [last.pop() if self.rows[row].ended else row for row in range(len(active))]
            self.cache.keep_rows(torch.tensor(order, dtype=torch.long, device=self.device))
            self.rows = [self.rows[row] for row in order]
        return bool(active)

    def _prefill(self, rows: list[int]) -> None:
        """Reads all but the last id of each window into the cache, in passes of rows of similar length."""
        for row in rows[: self.to_compare]:
            self.reference_scores[row] = next_scores(self.model, self.rows[row].sequence)
        self.to_compare -= len(self.reference_scores)
        windows = {row: self.rows[row].sequence.window[:-1] for row in rows}
        waiting = sorted((row for row in rows if windows[row]), key=lambda row: len(windows[row]), reverse=True)
        while waiting:
            length = len(windows[waiting[0]])
            count = max(1, PREFILL_TOKENS.get(self.device.type, 1 << 12) // length)
            if not self.cache.rewinds:  # padding at the end of a row could not be taken back
                count = min(count, sum(len(windows[row]) == length for row in waiting))
            together, waiting = waiting[:count], waiting[count:]
            padded = [windows[row] + [0] * (length - len(windows[row])) for row in together]
            self.cache.place_whole(torch.tensor(together, device=self.device))
            self.model.features(torch.tensor(padded, device=self.device), cache=self.cache)
        for row in rows:
            self.rows[row].start = self.rows[row].sequence.start

    def _step(self) -> None:
        """One more token for every row."""
        sequences = [one.sequence for one in self.rows]
        state = [(one.ids[-1], one.window_length - 1, one.seed, len(one.new_ids)) for one in sequences]
        last_B, position_B, seeds_B, index_B = torch.tensor(state, device=self.device).unbind(1)
        position_ids_B1 = position_B.unsqueeze(1)
        self.cache.place(position_ids_B1, max(one.window_length for one in sequences))
        scores_BV = self.model(last_B.unsqueeze(1), position_ids_BT=position_ids_B1, cache=self.cache)[:, -1].float()
        self.scores_BV = scores_BV
        penalised = self.sampling.repetition_penalty != 1.0
        seen_BV = seen_ids(sequences, scores_BV.shape[1]).to(self.device) if penalised else None
        choice = choose(scores_BV, self.sampling, seen_BV=seen_BV, seeds_B=seeds_B, index_B=index_B, slack=self.slack)
        recompute_B = ~choice.sure_B if self.recompute_unsure else scores_BV.isnan().any(dim=-1)
        for row, (token, recompute) in enumerate(zip(choice.ids_B.tolist(), recompute_B.tolist())):
            one = sequences[row]
            one.accept(self._recompute(row, scores_BV[row]) if recompute or row in self.reference_scores else token)

    def _recompute(self, row: int, scores_V: Tensor) -> int:
        """The next token of this row by the reference implementation."""
        sequence, reference_1V = self.rows[row].sequence, self.reference_scores.pop(row, None)
        if reference_1V is None:
            reference_1V = next_scores(self.model, sequence)
        if self.recompute_unsure:
            learn_rounding(self.slack, reference_1V, scores_V)
        return choose_next(reference_1V, sequence, self.sampling)


def rounds_as_float32(model: Transformer) -> bool:
    """Whether scores are computed in full float32 (or better), so that ``SLACK`` covers the rounding."""
    weight = next(model.parameters())
    full = torch.get_float32_matmul_precision() == "highest" and not torch.is_autocast_enabled(weight.device.type)
    return weight.dtype == torch.float64 or (weight.dtype == torch.float32 and full)


def modules_of(model: nn.Module) -> list[nn.Module]:
    """All modules of a model in any order; many times as fast as ``model.modules()``, and called before every generation."""
    found: list[nn.Module] = [model]
    for module in found:
        found += [inner for inner in module._modules.values() if inner is not None]
    return found


def learn_rounding(slack: Tensor, reference_1V: Tensor, scores_V: Tensor) -> None:
    """Raises the slack, in place, where the two ways differ by more than was thought."""
    difference = (reference_1V - scores_V).abs().max() / reference_1V.abs().max().clamp(min=1e-30)
    slack.copy_(torch.maximum(slack, CAUTION * difference))
