"""Pairs of texts -> padded batches of a few fixed lengths: which pairs come at step n depends only on (seed, n).

A source is read as ``source <end>``; a target is written as ``<start> target`` -> ``target <end>``. Pairs of similar length
are batched together, as labelled texts are. For training, pairs longer than the context are left out; otherwise they are
cut. Both are counted. Imports no torch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from glassformer.data.labels.label_batches import IGNORED, fixed_lengths
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


class PaddedPairs(NamedTuple):
    """Arrays [B, S] and [B, T]; ``source_padding_BS`` is True on padding, ``targets_BT`` is IGNORED there."""

    source_ids_BS: np.ndarray
    source_padding_BS: np.ndarray
    ids_BT: np.ndarray
    targets_BT: np.ndarray


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
    return [np.append(part.astype(np.int64), end) for part in np.split(ids, np.cumsum(counts)[:-1])]


def padded_pairs(pairs: EncodedPairs, chosen: Sequence[int], length: int, *, rows: int | None = None) -> PaddedPairs:
    """The chosen pairs as padded arrays; further ``rows`` repeat the first source, without targets."""
    rows = rows or len(chosen)
    source_BS, padding_BS = np.full((rows, length), pairs.source_pad, np.int64), np.ones((rows, length), bool)
    ids_BT, targets_BT = np.full((rows, length), pairs.target_pad, np.int64), np.full((rows, length), IGNORED, np.int64)
    ids_BT[:, 0] = pairs.target_start
    for row in range(rows):
        source = pairs.sources[chosen[row] if row < len(chosen) else chosen[0]]
        source_BS[row, : len(source)], padding_BS[row, : len(source)] = source, False
        if row < len(chosen):
            target = pairs.targets[chosen[row]]
            ids_BT[row, 1 : len(target)], targets_BT[row, : len(target)] = target[:-1], target
    return PaddedPairs(source_BS, padding_BS, ids_BT, targets_BT)


def pairs_in_order(pairs: EncodedPairs, batch_size: int) -> Iterator[tuple[np.ndarray, PaddedPairs]]:
    """Every pair once, the short ones first, for evaluation: (which pairs, their rows)."""
    order, fixed = np.argsort(pairs.lengths, kind="stable"), np.array(fixed_lengths(pairs.context))
    for start in range(0, len(order), batch_size):
        at = order[start : start + batch_size]
        length = int(fixed[np.searchsorted(fixed, pairs.lengths[at].max())])
        yield at, padded_pairs(pairs, at.tolist(), length)
