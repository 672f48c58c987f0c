"""Baselines of language models, fitted on the training tokens: uniform, unigram, smoothed bigram.

Each computes the loss of every token but the first, as ``language.token_losses`` does for a model, so the same metrics
follow. Counts are sparse and made in chunks, for vocabularies of 50,000 and token files larger than memory. The fourth
baseline, the untrained model, is evaluated like any model. Imports no torch.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Self, final

import numpy as np

from glassformer.evaluation.language_metrics import DocumentLosses, EvaluatedText, language_outcomes
from glassformer.evaluation.results import Baseline, EvaluationTools, Outcomes
from glassformer.foundation.errors import DataError
from glassformer.foundation.files import release_pages

CHUNK = 1 << 21
"""Tokens per chunk: sorting their keys takes some 100 MiB."""

COUNTED = 50_000_000
"""At most so many training tokens are counted; more would change a bigram little and cost minutes."""


class LanguageBaseline(Baseline):
    """A model that sees at most the previous token. Subclasses implement ``probabilities``."""

    @abstractmethod
    def probabilities(self, previous_N: np.ndarray, next_N: np.ndarray) -> np.ndarray:
        """float64 [N]: how probable each next token is after its previous one."""

    def loss_chunks(self, tokens: np.ndarray) -> Iterator[np.ndarray]:
        """The nats of ``tokens[1:]``, a chunk at a time."""
        for at in range(0, len(tokens) - 1, CHUNK):
            ids_N = np.asarray(tokens[at : at + CHUNK + 1]).astype(np.int64)
            yield -np.log(self.probabilities(ids_N[:-1], ids_N[1:]))
            release_pages(tokens)

    def token_losses(self, tokens: np.ndarray) -> np.ndarray:
        """float64 nats of ``tokens[1:]``, in order."""
        return np.concatenate([np.empty(0), *self.loss_chunks(tokens)])

    def document_losses(self, text: EvaluatedText) -> DocumentLosses:
        return DocumentLosses.collect(self.loss_chunks(text.tokens), text)

    def evaluate(self, items: Any, tools: EvaluationTools) -> Outcomes:
        """``items``: a split of prepared text."""
        return language_outcomes(self.document_losses(EvaluatedText.of(items, tools.tokenizer)))


@final
class Uniform(LanguageBaseline):
    """Every token is as probable as any other: perplexity V."""

    def __init__(self, vocabulary: int) -> None:
        self.vocabulary = vocabulary

    def probabilities(self, previous_N: np.ndarray, next_N: np.ndarray) -> np.ndarray:
        return np.full(len(next_N), 1.0 / self.vocabulary)

    def arrays(self) -> dict[str, np.ndarray]:
        return {"vocabulary": np.asarray(self.vocabulary)}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray]) -> Self:
        return cls(int(arrays["vocabulary"]))


@final
class Unigram(LanguageBaseline):
    """Token frequencies in the training tokens, with Witten-Bell smoothing towards the uniform distribution.

    (c + K / V) / (N + K), with K distinct tokens among N.
    """

    def __init__(self, table_V: np.ndarray) -> None:
        self.table_V = table_V

    @classmethod
    def fit(cls, training: np.ndarray, vocabulary: int) -> Self:
        """From the tokens the model was trained on."""
        counts_V = np.zeros(vocabulary, np.int64)
        for ids_N in _counted_chunks(training, vocabulary):
            counts_V += np.bincount(ids_N, minlength=vocabulary)
        distinct = max(1, int(np.count_nonzero(counts_V)))  # from no tokens at all: uniform
        return cls((counts_V + distinct / vocabulary) / (counts_V.sum() + distinct))

    def probabilities(self, previous_N: np.ndarray, next_N: np.ndarray) -> np.ndarray:
        return np.asarray(self.table_V[next_N])

    def arrays(self) -> dict[str, np.ndarray]:
        return {"table": self.table_V}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray]) -> Self:
        return cls(arrays["table"])


@final
class Bigram(LanguageBaseline):
    """Bigram frequencies in the training tokens, with Witten-Bell smoothing towards the unigram.

    (c(h, w) + K(h) p(w)) / (c(h) + K(h)), with K(h) distinct tokens after h; the unigram where h was never followed by one.
    """

    trivial: ClassVar[bool] = False  # the best that a model without mixing between positions can reach

    def __init__(self, unigram: Unigram, pairs_K: np.ndarray, counts_K: np.ndarray) -> None:
        self.unigram, self.vocabulary = unigram, len(unigram.table_V)
        first_K = pairs_K // self.vocabulary
        self.followed_V = np.bincount(first_K, weights=counts_K, minlength=self.vocabulary)
        self.distinct_V = np.bincount(first_K, minlength=self.vocabulary).astype(np.float64)
        beyond = self.vocabulary**2  # sentinel key with count 0, so that every search ends at a key
        self.pairs_K, self.counts_K = np.append(pairs_K, beyond), np.append(counts_K, 0)

    @classmethod
    def fit(cls, training: np.ndarray, unigram: Unigram) -> Self:
        """From the tokens the model was trained on."""
        return cls(unigram, *_count_pairs(training, len(unigram.table_V)))

    def probabilities(self, previous_N: np.ndarray, next_N: np.ndarray) -> np.ndarray:
        pairs_N = previous_N * self.vocabulary + next_N
        place_N = np.searchsorted(self.pairs_K, pairs_N)
        counts_N = np.where(self.pairs_K[place_N] == pairs_N, self.counts_K[place_N], 0)
        smooth_N = self.unigram.probabilities(previous_N, next_N)
        distinct_N = self.distinct_V[previous_N]
        total_N = self.followed_V[previous_N] + distinct_N
        mixed_N = (counts_N + distinct_N * smooth_N) / np.maximum(total_N, 1.0)
        return np.asarray(np.where(total_N > 0, mixed_N, smooth_N))

    def arrays(self) -> dict[str, np.ndarray]:
        return {"table": self.unigram.table_V, "pairs": self.pairs_K[:-1], "counts": self.counts_K[:-1]}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray]) -> Self:
        return cls(Unigram.from_arrays(arrays), arrays["pairs"], arrays["counts"])


def trivial_baselines(training: np.ndarray, vocabulary: int) -> dict[str, LanguageBaseline]:
    """The three baselines of a language model, best last, from its training tokens."""
    unigram = Unigram.fit(training, vocabulary)
    return {"uniform": Uniform(vocabulary), "unigram": unigram, "bigram": Bigram.fit(training, unigram)}


def _counted_chunks(tokens: np.ndarray, vocabulary: int, overlap: int = 0) -> Iterator[np.ndarray]:
    """Chunks as int64, each with ``overlap`` tokens of the next; a regular subsample of chunks if there are too many."""
    pieces = range(0, len(tokens), CHUNK)
    stride = max(1, math.ceil(len(tokens) / COUNTED))
    for at in pieces if stride == 1 else pieces[::stride]:
        ids_N = np.asarray(tokens[at : at + CHUNK + overlap]).astype(np.int64)
        if ids_N.min() < 0 or ids_N.max() >= vocabulary:
            raise DataError(
                f"The training tokens hold the id {ids_N.max()}, but the vocabulary has the ids 0 to {vocabulary - 1}.",
                reason="id-outside-vocabulary",
            )
        yield ids_N
        release_pages(tokens)


def _count_pairs(tokens: np.ndarray, vocabulary: int) -> tuple[np.ndarray, np.ndarray]:
    """The pairs of neighbours that occur, as rising keys ``first * vocabulary + second``, and how often each does."""
    chunks = (ids_N[:-1] * vocabulary + ids_N[1:] for ids_N in _counted_chunks(tokens, vocabulary, overlap=1))
    keys, counts = np.empty(0, np.int64), np.empty(0, np.int64)
    for pairs_N in chunks:
        new_keys, new_counts = np.unique(pairs_N, return_counts=True)
        keys, place = np.unique(np.concatenate([keys, new_keys]), return_inverse=True)
        counts = np.bincount(place, weights=np.concatenate([counts, new_counts])).astype(np.int64)
    return keys, counts
