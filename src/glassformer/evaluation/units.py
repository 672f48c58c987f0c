"""Losses by token -> sums by unit (document or block) and by position, from which all confidence intervals are computed.

A unit is a document, or a block of 1,000 tokens when there is only one document. A few numbers per unit are kept, so that
token files larger than memory work, and studies can pair units later. Imports no torch.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from glassformer.foundation.errors import DataError

if TYPE_CHECKING:
    from glassformer.data.token_files import TokenSplit
    from glassformer.data.tokenizers.base import Tokenizer

BLOCK = 1000
"""Tokens in a unit when there is only one document."""


@dataclass(frozen=True)
class EvaluatedText:
    """The tokens that a model and its baselines are evaluated on.

    ``starts`` [documents]: where each document begins in ``tokens`` (None: one document). ``byte_lengths`` [V]: bytes per
    token id, NaN where not fixed (a tokenizer's ``byte_lengths()``). ``words``, ``characters`` and ``text_bytes``
    [documents]: sizes of each document's text (words are separated by white space). ``unknown_id``: the id of UNK, if any.
    ``word_weights`` [V] (see the function of this name) distributes the words of a single document over its blocks; without
    it perplexity by word has no interval there.
    """

    tokens: np.ndarray
    starts: np.ndarray | None = None
    byte_lengths: np.ndarray | None = None
    words: np.ndarray | None = None
    unknown_id: int | None = None
    word_weights: np.ndarray | None = None
    characters: np.ndarray | None = None
    text_bytes: np.ndarray | None = None
    first_words: int = 0
    """Whole words in the very first token, which is never predicted; and its characters and bytes."""
    first_characters: int = 0
    first_bytes: int = 0

    def __post_init__(self) -> None:
        if self.tokens.ndim != 1:
            raise DataError(f"Tokens must be one long array, not one of shape {self.tokens.shape}.")
        starts = self.document_starts
        if len(starts) == 0 or starts[0] != 0 or np.any(np.diff(starts) < 0) or starts[-1] > len(self.tokens):
            raise DataError("Document starts must begin with 0, never fall, and stay inside the tokens.")
        for name in ("words", "characters", "text_bytes"):
            sizes = getattr(self, name)
            if sizes is not None and len(sizes) != len(starts):
                raise DataError(f"There are {len(sizes)} counts of {name} for {len(starts)} documents; there must be one each.")

    @classmethod
    def of(cls, split: TokenSplit, tokenizer: Tokenizer) -> Self:
        """A split of prepared text."""
        weights = None
        if split.num_documents == 1:  # to count the words of each block
            weights = word_weights([tokenizer.decode([token_id]) for token_id in range(tokenizer.size)])
        return cls(
            tokens=split.tokens,
            starts=split.starts,
            byte_lengths=tokenizer.byte_lengths(),
            words=split.documents["words"],
            characters=split.documents["characters"],
            text_bytes=split.documents["bytes"],
            word_weights=weights,
            unknown_id=tokenizer.unknown_id,
            **_sizes_of_first(split.tokens[:2].tolist(), tokenizer),
        )

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
    """Sums over each unit, arrays of equal length; a unit without a predicted token has zeros.

    Sizes of the text (``bytes``, ``words``, ``characters``) are NaN where unknown.
    """

    nats: np.ndarray
    tokens: np.ndarray
    bytes: np.ndarray
    words: np.ndarray
    characters: np.ndarray
    unknown: np.ndarray
    documents: int

    @property
    def unit(self) -> str:
        """The sampling unit of the intervals: ``"document"``, or ``"block"`` when there is only one document."""
        return "document" if self.documents > 1 else "block"

    @classmethod
    def collect(cls, losses: np.ndarray | Iterable[np.ndarray], text: EvaluatedText) -> Self:
        """Sums the losses of ``text.tokens[1:]``, given whole or in consecutive chunks, over documents or blocks."""
        documents = text.documents
        starts = text.document_starts if documents > 1 else _block_starts(len(text.tokens))
        starts = np.ascontiguousarray(starts)  # searchsorted would copy a strided column each time
        sums = {name: np.zeros(len(starts)) for name in ("nats", "tokens", "bytes", "known_bytes", "unknown", "words")}
        at = 1  # losses[0] is the loss of tokens[1]
        for chunk in _chunks(losses):
            ids = np.asarray(text.tokens[at : at + len(chunk)])
            if len(ids) != len(chunk):
                raise DataError(f"There are more losses than the {max(len(text.tokens) - 1, 0)} predicted tokens.")
            unit = np.searchsorted(starts, np.arange(at, at + len(chunk)), side="right") - 1
            first = int(unit[0])
            for name, values in _by_token(chunk, ids, text).items():
                added = np.bincount(unit - first, weights=values)
                sums[name][first : first + len(added)] += added
            at += len(chunk)
        if at < len(text.tokens):
            raise DataError(f"There are losses for {at - 1} tokens, but {len(text.tokens) - 1} tokens to predict.")
        return cls(
            nats=sums["nats"],
            tokens=sums["tokens"].astype(np.int64),
            bytes=_bytes(text, sums["bytes"]),
            words=_sizes(text, text.words, text.first_words, sums["words"]),
            characters=_sizes(text, text.characters, text.first_characters, sums["known_bytes"]),  # about one each
            unknown=sums["unknown"].astype(np.int64),
            documents=documents,
        )

    @classmethod
    def of_texts(cls, texts: Sequence[DocumentLosses]) -> Self:
        """Combines evaluations of single texts; each becomes one document."""
        names = ("nats", "tokens", "bytes", "words", "characters", "unknown")
        return cls(**{name: np.array([getattr(one, name).sum() for one in texts]) for name in names}, documents=len(texts))

    def arrays(self) -> dict[str, np.ndarray]:
        """Arrays for an .npz file or, with ``.tolist()``, for JSON; unknown sizes are -1."""
        sizes = {name: np.nan_to_num(getattr(self, name), nan=-1.0) for name in _SIZES}
        counts = {"tokens": self.tokens, "unknown": self.unknown, "documents": np.asarray(self.documents)}
        return {"nats": self.nats, **sizes, **counts}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Any]) -> Self:
        """The inverse of ``arrays``; accepts lists, and missing sizes are unknown."""
        nats = np.asarray(arrays["nats"], dtype=np.float64)
        sizes = {name: np.asarray(arrays.get(name, np.full(len(nats), -1.0)), dtype=np.float64) for name in _SIZES}
        sizes = {name: np.where(size < 0, np.nan, size) for name, size in sizes.items()}
        counts = {name: np.asarray(arrays[name], dtype=np.int64) for name in ("tokens", "unknown")}
        return cls(nats=nats, **sizes, **counts, documents=int(arrays["documents"]))


_SIZES = ("bytes", "words", "characters")


class PositionLosses:
    """The mean loss at each position of the window with its standard error over windows; updated with consecutive losses."""

    def __init__(self, context: int) -> None:
        self.context, self._seen = context, 0
        self.n = np.zeros(context, np.int64)
        self._sum, self._squares = np.zeros(context), np.zeros(context)

    def add(self, losses: np.ndarray) -> None:
        """Adds the next losses of the stream; the very first is at position 0."""
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
    """At most 2^20 losses at a time, so that temporary arrays take a few dozen MiB."""
    for chunk in [losses] if isinstance(losses, np.ndarray) else losses:
        for at in range(0, len(chunk), 1 << 20):
            yield chunk[at : at + (1 << 20)]


def _block_starts(size: int) -> np.ndarray:
    """Blocks of 1,000 tokens; a remainder shorter than half a block belongs to the last block."""
    return np.arange(max(1, round(size / BLOCK)), dtype=np.int64) * BLOCK


def _by_token(losses: np.ndarray, ids: np.ndarray, text: EvaluatedText) -> dict[str, np.ndarray]:
    """What each predicted token adds to its unit."""
    nothing = np.zeros(len(ids))
    lengths = nothing + np.nan if text.byte_lengths is None else text.byte_lengths[ids]
    return {
        "nats": losses,
        "tokens": nothing + 1.0,
        "bytes": lengths,
        "known_bytes": np.nan_to_num(lengths),
        "unknown": nothing if text.unknown_id is None else (ids == text.unknown_id).astype(np.float64),
        "words": nothing if text.word_weights is None else text.word_weights[ids],
    }


def _bytes(text: EvaluatedText, of_tokens: np.ndarray) -> np.ndarray:
    """Bytes by unit: of the predicted tokens, or of the text where the tokenizer drops some (white space between words)."""
    if text.text_bytes is None or text.byte_lengths is None or len(text.tokens) == 0:
        return of_tokens
    in_tokens, in_text = of_tokens.sum() + text.byte_lengths[text.tokens[0]], np.sum(text.text_bytes)
    if not in_tokens < in_text:  # also when not known: NaN is not less than anything
        return of_tokens
    return _sizes(text, text.text_bytes, text.first_bytes, of_tokens)


def _sizes(text: EvaluatedText, of_documents: np.ndarray | None, first: int, weights: np.ndarray) -> np.ndarray:
    """Sizes of the documents without ``first`` (the first token); of a single document, distributed over blocks by weight.

    Without weights all goes to the first block: then there is a value and no interval.
    """
    if of_documents is None:
        return np.full(len(weights), np.nan)
    sizes = np.array(of_documents, dtype=np.float64)
    begins = int(np.searchsorted(text.document_starts, 0, side="right")) - 1  # empty documents may stand before it
    sizes[begins] = max(0.0, sizes[begins] - first)
    if text.documents > 1:
        return sizes
    if weights.sum() == 0:
        weights = np.eye(1, len(weights))[0]
    return np.asarray(float(sizes.sum()) * weights / weights.sum())


def _sizes_of_first(ids: Sequence[int], tokenizer: Tokenizer) -> dict[str, int]:
    """Characters, bytes and whole words of the first token, which is never predicted."""
    if not ids or tokenizer.byte_lengths()[ids[0]] == 0:  # a special token has no text
        return {}
    first = tokenizer.decode([ids[0]])
    after = tokenizer.decode(list(ids[:2]))[len(first) :] if len(ids) > 1 else ""
    ended = len(first.split()) - (0 if not after or first[-1:].isspace() or after[0].isspace() else 1)
    return {"first_characters": len(first), "first_bytes": len(first.encode()), "first_words": max(0, ended)}


def word_weights(token_texts: Sequence[str]) -> np.ndarray:
    """About how many words each token id adds: the runs of white space in its text.

    If no id has white space, ids are words and punctuation: one word for each with a letter or digit. Only the proportions
    matter, because the words of the whole document are known.
    """
    runs = np.array([len(re.findall(r"\s+", text)) for text in token_texts], dtype=np.float64)
    if runs.any():
        return runs
    return np.array([float(any(map(str.isalnum, text))) for text in token_texts])
