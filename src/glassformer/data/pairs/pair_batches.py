"""Pairs of texts -> padded batches of a few fixed lengths: which pairs come at step n depends only on (seed, n).

A source is read as ``source <end>``; a target is written as ``<start> target`` -> ``target <end>``. Pairs of similar length
are batched together, as labelled texts are. For training, pairs longer than the context are left out; otherwise they are
cut. Both are counted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np
import torch
from torch import Tensor

from glassformer.data.batches import Batch
from glassformer.data.labels.label_batches import IGNORED, LengthGroups, fixed_lengths
from glassformer.data.memory_cache import MemoryCache
from glassformer.data.pairs.text_pairs import Pairs
from glassformer.data.prepare import memory_key
from glassformer.data.tokenizers.base import Tokenizer
from glassformer.data.tokenizers.two import target_side
from glassformer.foundation.errors import DataError

START, END, PAD = "<start>", "<end>", "<pad>"
MARKS = (START, END, PAD)


@dataclass(frozen=True)
class EncodedPairs:
    """The ids of each source and target, each with its end, unpadded. ``outside``: pairs that were left out or cut."""

    sources: tuple[np.ndarray, ...]
    targets: tuple[np.ndarray, ...]
    outside: int
    given: int
    context: int
    source_pad: int
    target_start: int
    target_pad: int

    def __len__(self) -> int:
        return len(self.sources)

    @cached_property
    def lengths(self) -> np.ndarray:
        """The longer side of each pair."""
        return np.array([max(len(source), len(target)) for source, target in zip(self.sources, self.targets)])

    def note(self, done: str) -> str | None:
        """A sentence about pairs that are too long; None if all fit. ``done``: what was done with them."""
        if not self.outside:
            return None
        return (
            f"{self.outside:,} of {self.given:,} pairs ({self.outside / self.given:.1%}) are longer than {self.context} tokens "
            f"and were {done}; raise model.context to read all of them."
        )


_encodings = MemoryCache[EncodedPairs](6, lambda pairs: 24 * int(pairs.lengths.sum()) + 400 * len(pairs))
"""In-memory cache: every trial of a study encodes the same pairs."""


def encode_pairs(tokenizer: Tokenizer, items: Pairs, context: int, *, training: bool = False) -> EncodedPairs:
    """The ids of sources and targets (of no targets: empty ones)."""
    key = memory_key(tokenizer, items.fingerprint, context, training)
    return _encodings.get(key, lambda: _encoded(tokenizer, items, context, training))


def _encoded(tokenizer: Tokenizer, items: Pairs, context: int, training: bool) -> EncodedPairs:
    target = target_side(tokenizer)
    sources = _with_end(tokenizer, items.sources)
    targets = _with_end(target, items.targets if items.targets is not None else ("",) * len(items))
    too_long = [max(len(one), len(two)) > context for one, two in zip(sources, targets)]
    if training:
        sources, targets = ([ids for ids, long in zip(side, too_long) if not long] for side in (sources, targets))
        if not sources:
            raise DataError(
                f"every one of the {len(items):,} training pairs is longer than model.context={context} tokens; raise it.",
                reason="all-too-long",
            )
    else:  # the end of a text that is cut stays, so that the model sees an end
        sources, targets = (
            [ids if len(ids) <= context else np.append(ids[: context - 1], ids[-1]) for ids in side]
            for side in (sources, targets)
        )
    return EncodedPairs(
        tuple(sources),
        tuple(targets),
        sum(too_long),
        len(items),
        context,
        tokenizer.mark_id(PAD),
        target.mark_id(START),
        target.mark_id(PAD),
    )


def _with_end(tokenizer: Tokenizer, texts: Sequence[str]) -> list[np.ndarray]:
    ids, counts = tokenizer.encode_batch(list(texts))
    end = np.int64(tokenizer.mark_id(END))
    prefix = np.array(tokenizer.prefix, np.int64)
    return [np.concatenate([prefix, part.astype(np.int64), [end]]) for part in np.split(ids, np.cumsum(counts)[:-1])]


def never_written(target: Tokenizer) -> list[int]:
    """Ids that no translation contains: marks and special tokens other than its end."""
    if target.own_marks:  # a published model, which may begin with a special token
        own = {target.mark_id(START), target.mark_id(PAD)}
    else:
        own = {one for one in (target.pad_id, target.start_id, target.stop_id) if one is not None}
    return sorted((own | set(range(target.size - len(target.marks), target.size))) - {target.mark_id(END)})


def written_text(tokenizer: Tokenizer, ids: Sequence[int]) -> str:
    """The text of a target's ids without its end."""
    begin = len(tokenizer.prefix)
    return tokenizer.decode(list(ids[begin:] if tuple(ids[:begin]) == tokenizer.prefix else ids)).strip()


@final
class PairTables:
    """All pairs of a set as padded tensors on one device; a batch is some of their rows, cut to a length."""

    def __init__(self, pairs: EncodedPairs, device: torch.device | None = None) -> None:
        self.pairs = pairs
        self.device = torch.device("cpu") if device is None else device
        width = int(pairs.lengths.max())
        sources_NS = np.full((len(pairs), width), pairs.source_pad, np.int64)
        ids_NT = np.full((len(pairs), width), pairs.target_pad, np.int64)
        targets_NT = np.full((len(pairs), width), IGNORED, np.int64)
        ids_NT[:, 0] = pairs.target_start
        for row, (source, target) in enumerate(zip(pairs.sources, pairs.targets)):
            sources_NS[row, : len(source)] = source
            ids_NT[row, 1 : len(target)], targets_NT[row, : len(target)] = target[:-1], target
        self.sources_NS, self.ids_NT, self.targets_NT = (
            torch.from_numpy(table).to(self.device) for table in (sources_NS, ids_NT, targets_NT)
        )

    def batch(self, chosen: np.ndarray, length: int, *, rows: int | None = None) -> Batch:
        """The chosen pairs, padded to ``length``; further ``rows`` repeat the first pair, without targets."""
        spare = (rows or len(chosen)) - len(chosen)
        at_B = torch.from_numpy(np.concatenate([chosen, np.repeat(chosen[:1], spare)])).to(self.device)
        source_ids_BS = self._cut(self.sources_NS, at_B, length, self.pairs.source_pad)
        targets_BT = self._cut(self.targets_NT, at_B, length, IGNORED)
        if spare:
            targets_BT[len(chosen) :] = IGNORED
        return Batch(
            ids=self._cut(self.ids_NT, at_B, length, self.pairs.target_pad),
            targets=targets_BT,
            source_ids=source_ids_BS,
            source_padding=source_ids_BS == self.pairs.source_pad,
        )

    @staticmethod
    def _cut(table_NW: Tensor, at_B: Tensor, length: int, filler: int) -> Tensor:
        found = table_NW[at_B, :length]
        spare = length - found.shape[1]
        return torch.nn.functional.pad(found, (0, spare), value=filler) if spare > 0 else found


@final
class PairBatches:
    """Batches of pairs, by step number; each epoch visits every pair once."""

    def __init__(self, groups: LengthGroups[EncodedPairs], tables: PairTables | None = None) -> None:
        self.groups = groups
        self.tables = tables or PairTables(groups.texts)

    @property
    def steps_per_epoch(self) -> float:
        return float(self.groups.batches_per_epoch)

    @property
    def notes(self) -> list[str]:
        """How many pairs were too long."""
        return [note for note in (self.groups.texts.note("left out"),) if note]

    def on(self, device: torch.device) -> PairBatches:
        return self if device == self.tables.device else PairBatches(self.groups, PairTables(self.groups.texts, device))

    def batch(self, step: int) -> Batch:
        chosen, length = self.groups.chosen(step)
        return self.tables.batch(chosen, length, rows=self.groups.batch_size)


def pairs_in_order(pairs: EncodedPairs, batch_size: int) -> Iterator[tuple[np.ndarray, Batch]]:
    """Every pair once, the short ones first, for evaluation: (which pairs, their rows)."""
    order, fixed, tables = np.argsort(pairs.lengths, kind="stable"), np.array(fixed_lengths(pairs.context)), PairTables(pairs)
    for start in range(0, len(order), batch_size):
        at = order[start : start + batch_size]
        yield at, tables.batch(at, int(fixed[np.searchsorted(fixed, pairs.lengths[at].max())]))
