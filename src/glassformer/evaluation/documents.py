"""Losses by token -> losses by document and by position: the units whose spread gives every interval.

A unit is a document, or a block of 1,000 tokens when there is only one document. Keeps a few numbers per unit, so that
token files larger than memory work, and studies can pair units later. Knows no model; imports no torch.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from glassformer.foundation.errors import DataError

BLOCK = 1000
"""Tokens in a unit when there is only one document."""


@dataclass(frozen=True)
class EvaluatedText:
    """The tokens that every model and every baseline of one table is measured on.

    ``starts`` [documents]: where each document begins in ``tokens`` (None: all is one document). ``byte_lengths`` [V]: the
    bytes each id stands for, NaN where not fixed (a tokenizer's ``byte_lengths()``). ``words`` [documents]: the
    whitespace-separated words of each document's text. ``unknown_id``: the id of UNK, where the tokenizer has one.
    ``word_weights`` [V] (see the function of this name) shares the words of an only document out to its blocks; without it
    perplexity by word has no interval there.
    """

    tokens: np.ndarray
    starts: np.ndarray | None = None
    byte_lengths: np.ndarray | None = None
    words: np.ndarray | None = None
    unknown_id: int | None = None
    word_weights: np.ndarray | None = None

    def __post_init__(self) -> None:
        if self.tokens.ndim != 1:
            raise DataError(f"Tokens must be one long array, not one of shape {self.tokens.shape}.")
        starts = self.document_starts
        if len(starts) == 0 or starts[0] != 0 or np.any(np.diff(starts) < 0) or starts[-1] > len(self.tokens):
            raise DataError("Document starts must begin with 0, never fall, and stay inside the tokens.")
        if self.words is not None and len(self.words) != len(starts):
            raise DataError(f"There are {len(self.words)} word counts for {len(starts)} documents; there must be one each.")

    @property
    def document_starts(self) -> np.ndarray:
        return np.zeros(1, np.int64) if self.starts is None else np.asarray(self.starts, dtype=np.int64)

    @property
    def documents(self) -> int:
        """Documents that hold at least one predicted token."""
        ends = np.append(self.document_starts[1:], len(self.tokens))
        predicted = ends - np.maximum(self.document_starts, 1)  # the very first token has no prediction
        return int(np.count_nonzero(predicted > 0))


@dataclass(frozen=True)
class DocumentLosses:
    """Sums over each unit, all arrays of one length; a unit without a predicted token has zeros.

    ``bytes`` and ``words`` are NaN where they are not known. The sums of ``nats`` and ``tokens`` are those of the whole text.
    """

    nats: np.ndarray
    tokens: np.ndarray
    bytes: np.ndarray
    words: np.ndarray
    unknown: np.ndarray
    documents: int

    @property
    def unit(self) -> str:
        """What the intervals are drawn over: ``"document"``, or ``"block"`` when there is only one document."""
        return "document" if self.documents > 1 else "block"

    @classmethod
    def collect(cls, losses: np.ndarray | Iterable[np.ndarray], text: EvaluatedText) -> Self:
        """Sums the losses of ``text.tokens[1:]``, given whole or in consecutive chunks, over documents or blocks."""
        documents = text.documents
        starts = text.document_starts if documents > 1 else _block_starts(len(text.tokens))
        names = ("nats", "tokens", "bytes", "unknown", "words")
        sums = {name: np.zeros(len(starts)) for name in names}
        at = 1  # losses[0] is the loss of tokens[1]
        for chunk in _chunks(losses):
            ids = np.asarray(text.tokens[at : at + len(chunk)])
            if len(ids) != len(chunk):
                raise DataError(f"There are more losses than the {max(len(text.tokens) - 1, 0)} predicted tokens.")
            unit = np.searchsorted(starts, np.arange(at, at + len(chunk)), side="right") - 1
            weights = np.zeros(len(chunk)) if text.word_weights is None else text.word_weights[ids]
            for name, values in zip(names, (chunk, np.ones(len(chunk)), _bytes(ids, text), ids == text.unknown_id, weights)):
                first = int(unit[0])
                added = np.bincount(unit - first, weights=values)
                sums[name][first : first + len(added)] += added
            at += len(chunk)
        if at < len(text.tokens):
            raise DataError(f"There are losses for {at - 1} tokens, but {len(text.tokens) - 1} tokens to predict.")
        words = _words_of_documents(text) if documents > 1 else _words_of_blocks(text, sums["words"])
        return cls(
            nats=sums["nats"],
            tokens=sums["tokens"].astype(np.int64),
            bytes=sums["bytes"],
            words=words,
            unknown=sums["unknown"].astype(np.int64),
            documents=documents,
        )

    def arrays(self) -> dict[str, np.ndarray]:
        """Arrays of numbers for an .npz file, or, with ``.tolist()``, for JSON: what is not known is -1."""
        return {
            "nats": self.nats,
            "tokens": self.tokens,
            "bytes": np.nan_to_num(self.bytes, nan=-1.0),
            "words": np.nan_to_num(self.words, nan=-1.0),
            "unknown": self.unknown,
            "documents": np.asarray(self.documents),
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Any]) -> Self:
        """The inverse of ``arrays``; lists are taken as well."""
        known = {name: np.asarray(arrays[name], dtype=np.float64) for name in ("nats", "bytes", "words")}
        for name in ("bytes", "words"):
            known[name] = np.where(known[name] < 0, np.nan, known[name])
        counts = {name: np.asarray(arrays[name], dtype=np.int64) for name in ("tokens", "unknown")}
        return cls(**known, **counts, documents=int(arrays["documents"]))


class PositionLosses:
    """The mean loss at each position of the window, with an interval over windows; fed with consecutive losses."""

    def __init__(self, context: int) -> None:
        self.context, self._seen = context, 0
        self.n = np.zeros(context, np.int64)
        self._sum, self._squares = np.zeros(context), np.zeros(context)

    def add(self, losses: np.ndarray) -> None:
        """The next losses of the stream; the first one ever added stands at position 0."""
        position = (self._seen + np.arange(len(losses))) % self.context
        self.n += np.bincount(position, minlength=self.context)
        self._sum += np.bincount(position, weights=losses, minlength=self.context)
        self._squares += np.bincount(position, weights=losses**2, minlength=self.context)
        self._seen += len(losses)

    @property
    def mean(self) -> np.ndarray:
        """NaN at positions that no window reached."""
        means = np.full(self.context, np.nan)
        np.divide(self._sum, self.n, out=means, where=self.n > 0)
        return means

    @property
    def standard_error(self) -> np.ndarray:
        """Of each mean, over windows; NaN below two windows."""
        spread = np.maximum(self._squares - self.n * np.nan_to_num(self.mean) ** 2, 0.0)
        variances = np.full(self.context, np.nan)
        np.divide(spread, self.n * (self.n - 1.0), out=variances, where=self.n > 1)
        return np.asarray(np.sqrt(variances))


def _chunks(losses: np.ndarray | Iterable[np.ndarray]) -> Iterator[np.ndarray]:
    """At most 2^20 losses at a time: what is kept beside each of them is then a few dozen MiB."""
    for chunk in [losses] if isinstance(losses, np.ndarray) else losses:
        for at in range(0, len(chunk), 1 << 20):
            yield chunk[at : at + (1 << 20)]


def _block_starts(size: int) -> np.ndarray:
    """Blocks of 1,000 tokens; a rest shorter than half a block belongs to the block before it."""
    return np.arange(max(1, round(size / BLOCK)), dtype=np.int64) * BLOCK


def _bytes(ids: np.ndarray, text: EvaluatedText) -> np.ndarray:
    return np.full(len(ids), np.nan) if text.byte_lengths is None else text.byte_lengths[ids]


def _words_of_documents(text: EvaluatedText) -> np.ndarray:
    return np.full(len(text.document_starts), np.nan) if text.words is None else np.asarray(text.words, dtype=np.float64)


def _words_of_blocks(text: EvaluatedText, weights: np.ndarray) -> np.ndarray:
    """The words of the only document, shared out by weight; by default all in the first block, so no interval follows."""
    if text.words is None:
        return np.full(len(weights), np.nan)
    if weights.sum() == 0:
        weights = np.eye(1, len(weights))[0]
    return np.asarray(float(np.sum(text.words)) * weights / weights.sum())


def word_weights(token_texts: Sequence[str]) -> np.ndarray:
    """About how many words each id brings, from its text: the runs of white space in it.

    Where no id holds white space, ids are words and punctuation: one for each that holds a letter or digit. Only the
    proportions matter, because the words of the whole document are known.
    """
    runs = np.array([len(re.findall(r"\s+", text)) for text in token_texts], dtype=np.float64)
    if runs.any():
        return runs
    return np.array([float(any(map(str.isalnum, text))) for text in token_texts])
