"""Texts -> bags of words: counts or tf-idf of words and neighbouring pairs of words, as sparse rows. Imports no torch.

Words are runs of two or more letters or digits, in lower case (scikit-learn's rule, so that figures can be compared). The
words of a second text are other words than those of the first.
"""

from __future__ import annotations

import re
from collections import Counter
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
        documents: Counter[str] = Counter()
        for features in _features(texts, seconds, pairs):
            documents.update(set(features))
        vocabulary = tuple(sorted(documents))
        idf = np.log((1 + len(texts)) / (1 + np.array([documents[word] for word in vocabulary], float))) + 1
        return cls(vocabulary, idf if weighted else None, pairs)

    def rows(self, texts: Sequence[str], seconds: Sequence[str] | None = None) -> SparseRows:
        """One row for each text; words outside the vocabulary are left out."""
        places = {word: place for place, word in enumerate(self.vocabulary)}
        starts, columns, values = [0], [np.zeros(0, np.int64)], [np.zeros(0)]
        for features in _features(texts, seconds, self.pairs):
            counts = Counter(places[word] for word in features if word in places)
            at, count = np.array(sorted(counts), np.int64), np.array([counts[place] for place in sorted(counts)], float)
            if self.idf is not None and len(at):
                count = count * self.idf[at]
                count /= np.linalg.norm(count)
            columns.append(at)
            values.append(count)
            starts.append(starts[-1] + len(at))
        return SparseRows(np.array(starts), np.concatenate(columns), np.concatenate(values), len(self.vocabulary))


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
