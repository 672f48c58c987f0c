"""Texts -> bags of words: counts or tf-idf of words and neighbouring pairs of words, as sparse rows. Imports no torch.

Words are runs of two or more letters or digits, in lower case (scikit-learn's rule, so that figures can be compared). The
words of a second text are other words than those of the first.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Self, final

import numpy as np

from glassformer.evaluation.logistic import SparseRows

_WORD = re.compile(r"\b\w\w+\b")
_SECOND = "\x1f"  # before every word of the second text of a pair


def words_of(text: str) -> list[str]:
    """The words of a text in order."""
    return _WORD.findall(text.lower())


@final
@dataclass(frozen=True)
class Bag:
    """A vocabulary and how rows are made from it. ``idf`` None: plain counts; else tf-idf with rows of length 1."""

    vocabulary: tuple[str, ...]
    idf: np.ndarray | None
    pairs: bool  # pairs of neighbouring words, too

    @classmethod
    def fit(cls, texts: Sequence[str], seconds: Sequence[str] | None = None, *, weighted: bool, pairs: bool) -> Self:
        """The vocabulary of training texts; ``weighted``: rare words count more (smoothed inverse document frequency)."""
        return cls.with_rows(texts, seconds, weighted=weighted, pairs=pairs)[0]

    @classmethod
    def with_rows(
        cls, texts: Sequence[str], seconds: Sequence[str] | None = None, *, weighted: bool, pairs: bool
    ) -> tuple[Self, SparseRows]:
        """``fit``, and the rows of the training texts, which are found on the way."""
        numbers: dict[str, int] = {}  # by first occurrence
        found = [[numbers.setdefault(word, len(numbers)) for word in words] for words in _features(texts, seconds, pairs)]
        vocabulary = tuple(sorted(numbers))
        places = np.empty(len(numbers), np.int64)
        places[[numbers[word] for word in vocabulary]] = np.arange(len(vocabulary))
        starts, columns, counts = _counted([places[words] for words in found], len(vocabulary))
        idf = np.log((1 + len(texts)) / (1 + np.bincount(columns, minlength=len(vocabulary)))) + 1
        bag = cls(vocabulary, idf if weighted else None, pairs)
        return bag, bag._weighted(starts, columns, counts)

    def rows(self, texts: Sequence[str], seconds: Sequence[str] | None = None) -> SparseRows:
        """One row for each text; words outside the vocabulary are left out."""
        places = {word: place for place, word in enumerate(self.vocabulary)}
        found = [
            np.array([places[word] for word in words if word in places], np.int64)
            for words in _features(texts, seconds, self.pairs)
        ]
        return self._weighted(*_counted(found, len(self.vocabulary)))

    def _weighted(self, starts: np.ndarray, columns: np.ndarray, counts: np.ndarray) -> SparseRows:
        rows = SparseRows(starts, columns, counts.astype(float), len(self.vocabulary))
        if self.idf is None:
            return rows
        values = rows.values * self.idf[columns]
        lengths = np.sqrt(np.bincount(rows.rows, weights=values**2, minlength=len(rows)))
        return SparseRows(starts, columns, values / lengths[rows.rows], len(self.vocabulary))


def _counted(texts: Sequence[np.ndarray], num_columns: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The places of each text's words -> where each row starts, its columns in rising order, and how often each occurs."""
    rows = np.repeat(np.arange(len(texts)), [len(places) for places in texts])
    keys, counts = np.unique(rows * max(1, num_columns) + np.concatenate([np.zeros(0, np.int64), *texts]), return_counts=True)
    row, column = np.divmod(keys, max(1, num_columns))
    return np.searchsorted(row, np.arange(len(texts) + 1)), column, counts


def _features(texts: Sequence[str], seconds: Sequence[str] | None, pairs: bool) -> Iterator[list[str]]:
    for number, text in enumerate(texts):
        found = list(_ngrams(words_of(text), pairs))
        if seconds is not None:
            found += _ngrams([_SECOND + word for word in words_of(seconds[number])], pairs)
        yield found


def _ngrams(words: Sequence[str], pairs: bool) -> Iterable[str]:
    yield from words
    if pairs:
        yield from (f"{left} {right}" for left, right in pairwise(words))
