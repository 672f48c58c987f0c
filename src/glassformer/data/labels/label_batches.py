"""Labelled texts -> padded batches of a few fixed lengths: which texts come at step n depends only on (seed, n).

An epoch visits every text once. Texts of similar length are batched together and padded to the next of a few fixed lengths, so
that little is computed for padding and CUDA graphs are reused. Texts longer than the context are truncated and counted.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Generic, NamedTuple, Protocol, TypeVar, final

import numpy as np

from glassformer.data.labels.labelled_texts import LabelledTexts
from glassformer.data.memory_cache import MemoryCache
from glassformer.data.prepare import memory_key
from glassformer.data.tokenizers.base import Tokenizer
from glassformer.data.tokenizers.huggingface import FastTokenizer, answer_in_time
from glassformer.foundation.errors import DataError
from glassformer.foundation.seeds import derive_seed

SHORTEST = 16  # tokens; shorter rows are no faster on a GPU, and each length needs its own CUDA graph
POOL = 32  # batches that are sorted by length together: more would make the order of an epoch less random
ENCODED_AT_ONCE = 1024  # texts; the library's object for a text is a hundred times its ids
IGNORED = -100


@final
class Ragged(Sequence[np.ndarray]):
    """Rows of different lengths as parts of one array: an object for each row would take more memory than its numbers."""

    def __init__(self, flat: np.ndarray, lengths: Sequence[int]) -> None:
        self.flat, self.starts = flat, np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])

    def __len__(self) -> int:
        return len(self.starts) - 1

    def __getitem__(self, row: Any) -> Any:
        if not 0 <= row < len(self):
            raise IndexError(row)
        return self.flat[self.starts[row] : self.starts[row + 1]]


@dataclass(frozen=True)
class EncodedTexts:
    """The ids of each text, unpadded; ``types``: token types of pairs, if the tokenizer has them."""

    ids: Ragged
    types: Ragged | None
    labels: np.ndarray  # LabelledTexts.target_array
    cut: int
    pad_id: int
    context: int

    def __len__(self) -> int:
        return len(self.ids)

    @cached_property
    def lengths(self) -> np.ndarray:
        return np.diff(self.ids.starts)

    def note(self) -> str | None:
        """A sentence about truncated texts; None if all fit."""
        if not self.cut:
            return None
        return (
            f"{self.cut:,} of {len(self):,} texts ({self.cut / len(self):.1%}) are longer than {self.context} tokens and were "
            "cut; raise model.context to read all of them."
        )


_encodings = MemoryCache[EncodedTexts](6, lambda texts: 8 * int(texts.lengths.sum()))
"""In-memory cache: every trial of a study encodes the same texts."""


class PaddedRows(NamedTuple):
    """Arrays [B, T] and, of the labels, [B] or [B, C]; ``hidden`` is True on padding."""

    ids_BT: np.ndarray
    hidden_BT: np.ndarray
    labels_B: np.ndarray
    types_BT: np.ndarray | None


def encode_texts(tokenizer: Tokenizer, items: LabelledTexts, context: int) -> EncodedTexts:
    """Ids with the tokenizer's special tokens around and between texts, truncated to ``context``, the longer text first."""
    key = memory_key(tokenizer, items.fingerprint, items.label_names, items.scale, context)
    return _encodings.get(key, lambda: encoded_texts(tokenizer, items, context))


def encoded_texts(tokenizer: Tokenizer, items: LabelledTexts, context: int) -> EncodedTexts:
    """The same, not cached: for texts that come once."""
    rows = _by_marks(tokenizer, items, context)
    if isinstance(tokenizer, FastTokenizer) and tokenizer.library.num_special_tokens_to_add(items.pairs is not None):
        rows = _by_library(tokenizer, items, context)
    ids, kinds, lengths, cuts = array("i"), array("b"), array("q"), 0
    for row, row_kinds, cut in rows:  # one array for all texts: an object for each token would take ten times the memory
        ids.extend(row)
        kinds.extend(row_kinds)
        lengths.append(len(row))
        cuts += cut
    flat, types = (np.frombuffer(one, one.typecode) if one else np.zeros(0, np.int32) for one in (ids, kinds))
    pad = tokenizer.pad_id if tokenizer.pad_id is not None else 0  # masked for every query, so any id will do
    return EncodedTexts(
        Ragged(flat, lengths),
        Ragged(types.astype(np.int32), lengths) if types.any() else None,
        items.target_array,
        cuts,
        pad,
        context,
    )


def _by_library(tokenizer: FastTokenizer, items: LabelledTexts, context: int) -> Iterator[tuple[list[int], list[int], bool]]:
    """By the tokenizer's own template ([CLS] a [SEP] b [SEP], <s> a </s></s> b </s>)."""
    library = tokenizer.library
    marks = library.num_special_tokens_to_add(items.pairs is not None)

    def encoded(texts: Sequence[str]) -> list[Any]:
        encode = partial(library.encode_batch, list(texts), add_special_tokens=False)
        return list(answer_in_time(encode, sum(map(len, texts))))

    for start in range(0, len(items), ENCODED_AT_ONCE):
        firsts = encoded(items.texts[start : start + ENCODED_AT_ONCE])
        seconds: list[Any] = [None] * len(firsts)
        if items.pairs is not None:
            seconds = encoded(items.pairs[start : start + ENCODED_AT_ONCE])
        for first, second in zip(firsts, seconds):
            keep, keep_second, cut = _room(len(first), 0 if second is None else len(second), context - marks)
            first.truncate(keep)
            if second is not None:
                second.truncate(keep_second)
            whole = library.post_process(first, second, True)
            yield whole.ids, whole.type_ids, cut


def _by_marks(tokenizer: Tokenizer, items: LabelledTexts, context: int) -> Iterator[tuple[list[int], list[int], bool]]:
    """START a STOP b STOP, with those special tokens that the tokenizer has."""
    before = [] if tokenizer.start_id is None else [tokenizer.start_id]
    after = [] if tokenizer.stop_id is None else [tokenizer.stop_id]
    if items.pairs is not None and not after:
        raise DataError(
            f"data.pair_column gives pairs of texts, but the tokenizer ({tokenizer.kind}) has no separator mark; "
            "choose one with marks, for example tokenizer: {kind: word, marks: true}.",
            reason="no-mark-between-pairs",
        )
    marks = len(before) + len(after) * (1 if items.pairs is None else 2)
    for index, text in enumerate(items.texts):
        first = tokenizer.encode(text)
        second = None if items.pairs is None else tokenizer.encode(items.pairs[index])
        keep, keep_second, cut = _room(len(first), len(second or ()), context - marks)
        ids = [*before, *first[:keep], *after]
        types = [0] * len(ids)
        if second is not None:
            tail = [*second[:keep_second], *after]
            ids, types = [*ids, *tail], [*types, *[1] * len(tail)]
        if not ids:
            raise DataError(
                f"the text of {items.ids[index]} has no tokens; give a text the tokenizer knows.", reason="no-tokens"
            )
        yield ids, types, cut


def _room(first: int, second: int, room: int) -> tuple[int, int, bool]:
    """The lengths of two texts truncated to ``room`` tokens together, longest first."""
    if room < 1:
        raise DataError(
            "model.context leaves no room for a token between the marks; make it larger.", reason="context-too-short"
        )
    if first + second <= room:
        return first, second, False
    if not second:
        return room, 0, True
    half = room // 2
    if first <= half:
        return first, room - first, True
    if second <= room - half:
        return room - second, second, True
    return half, room - half, True


def fixed_lengths(context: int) -> list[int]:
    """The lengths rows are padded to: about sqrt(2) apart, in multiples of 8, and the context itself last."""
    lengths, length = [], float(SHORTEST)
    while length < context:
        lengths.append(int(-(-length // 8) * 8))
        length *= 2**0.5
    return [*(each for each in lengths if each < context), context]


def padded(texts: EncodedTexts, chosen: Sequence[int], length: int, *, rows: int | None = None) -> PaddedRows:
    """The chosen texts as one padded array; further ``rows`` repeat the first text, without a label."""
    rows = rows or len(chosen)
    ids_BT = np.full((rows, length), texts.pad_id, np.int64)
    hidden_BT = np.ones((rows, length), bool)
    labels_B = np.full((rows, *texts.labels.shape[1:]), IGNORED, texts.labels.dtype)
    types_BT = None if texts.types is None else np.zeros((rows, length), np.int64)
    for row in range(rows):
        index = chosen[row] if row < len(chosen) else chosen[0]
        size = len(texts.ids[index])
        ids_BT[row, :size], hidden_BT[row, :size] = texts.ids[index], False
        if types_BT is not None and texts.types is not None:
            types_BT[row, :size] = texts.types[index]
    labels_B[: len(chosen)] = texts.labels[list(chosen)]
    return PaddedRows(ids_BT, hidden_BT, labels_B, types_BT)


class HasLengths(Protocol):
    """Items of different lengths, none longer than ``context``."""

    def __len__(self) -> int: ...

    @property
    def context(self) -> int: ...

    @property
    def lengths(self) -> np.ndarray: ...


L = TypeVar("L", bound=HasLengths)


@final
class LengthGroups(Generic[L]):
    """Which texts make up each batch of an epoch, and to which length they are padded."""

    def __init__(self, texts: L, *, batch_size: int, seed: int) -> None:
        self.texts, self.batch_size, self.seed = texts, batch_size, seed
        self.lengths_N, self.fixed = texts.lengths, np.array(fixed_lengths(texts.context))
        self.batches_per_epoch = -(-len(texts) // batch_size)
        self._epoch, self._batches = -1, list[np.ndarray]()

    def chosen(self, step: int) -> tuple[np.ndarray, int]:
        """(the texts of step ``step``, their padded length)."""
        epoch, place = divmod(step, self.batches_per_epoch)
        if epoch != self._epoch:
            self._epoch, self._batches = epoch, self._of_epoch(epoch)
        at = self._batches[place]
        return at, int(self.fixed[np.searchsorted(self.fixed, self.lengths_N[at].max())])

    def _of_epoch(self, epoch: int) -> list[np.ndarray]:
        """Shuffled, then sorted by length within pools of batches, then the batches shuffled."""
        draw = np.random.default_rng(derive_seed(self.seed, "texts", epoch))
        order = draw.permutation(len(self.texts))
        pool = POOL * self.batch_size
        groups = [order[start : start + pool] for start in range(0, len(order), pool)]
        order = np.concatenate([group[np.argsort(self.lengths_N[group], kind="stable")] for group in groups])
        batches = [order[start : start + self.batch_size] for start in range(0, len(order), self.batch_size)]
        return [batches[at] for at in draw.permutation(len(batches))]

    def batch(self: LengthGroups[EncodedTexts], step: int) -> PaddedRows:
        """The rows of step ``step``, always ``batch_size`` of them."""
        at, length = self.chosen(step)
        return padded(self.texts, at.tolist(), length, rows=self.batch_size)


def in_order(texts: EncodedTexts, batch_size: int) -> Iterator[tuple[np.ndarray, PaddedRows]]:
    """Every text once, the short ones first, for evaluation: (which texts, their rows)."""
    order = np.argsort(texts.lengths, kind="stable")
    fixed = np.array(fixed_lengths(texts.context))
    for start in range(0, len(order), batch_size):
        at = order[start : start + batch_size]
        length = int(fixed[np.searchsorted(fixed, texts.lengths[at].max())])
        yield at, padded(texts, at.tolist(), length)
