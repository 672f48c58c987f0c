"""Training tokens -> the trivial models that every figure stands beside: uniform, unigram, smoothed bigram.

Each gives the loss of every token but the first of an array, as ``language.token_losses`` does for a model, so the same
figures follow. Counts are sparse and made in chunks: a vocabulary of 50,000 and a token file larger than memory work.
The fourth baseline, the untrained model, is a model like any other. Imports no torch.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import final

import numpy as np

from glassformer.evaluation.documents import DocumentLosses, EvaluatedText
from glassformer.evaluation.intervals import ratio
from glassformer.foundation.errors import DataError
from glassformer.foundation.files import release_pages

CHUNK = 1 << 21
"""Tokens counted or looked up at a time: some 100 MiB of keys and their sorting."""

COUNTED = 50_000_000
"""At most so many training tokens are counted; more would change a bigram little and cost minutes."""

DENSE_VOCABULARY = 1024
"""Up to this size all pairs are counted in one table (8 MiB); beyond it only those that occur."""


class Baseline(ABC):
    """A model that sees at most the token before. ``probabilities`` is all a kind has to say."""

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


@final
class Uniform(Baseline):
    """Every token is as probable as any other: perplexity V."""

    def __init__(self, vocabulary: int) -> None:
        self.vocabulary = vocabulary

    def probabilities(self, previous_N: np.ndarray, next_N: np.ndarray) -> np.ndarray:
        return np.full(len(next_N), 1.0 / self.vocabulary)


@final
class Unigram(Baseline):
    """How often each token is in the training tokens, mixed with the uniform distribution after Witten and Bell.

    As much weight as one count for each distinct token seen goes to tokens not seen: (c + K / V) / (N + K).
    """

    def __init__(self, training: np.ndarray, vocabulary: int) -> None:
        counts_V = np.zeros(vocabulary, np.int64)
        for ids_N in _counted_chunks(training, vocabulary):
            counts_V += np.bincount(ids_N, minlength=vocabulary)
        distinct = max(1, int(np.count_nonzero(counts_V)))  # from no tokens at all: uniform
        self.table_V = (counts_V + distinct / vocabulary) / (counts_V.sum() + distinct)

    def probabilities(self, previous_N: np.ndarray, next_N: np.ndarray) -> np.ndarray:
        return np.asarray(self.table_V[next_N])


@final
class Bigram(Baseline):
    """How often each token follows the one before it, mixed with the unigram after Witten and Bell.

    After h the unigram gets as much weight as one count for each distinct token seen after h:
    (c(h, w) + K(h) p(w)) / (c(h) + K(h)). After a token never seen before another it is the unigram.
    """

    def __init__(self, training: np.ndarray, unigram: Unigram) -> None:
        self.unigram, self.vocabulary = unigram, len(unigram.table_V)
        pairs_K, counts_K = _count_pairs(training, self.vocabulary)
        first_K = pairs_K // self.vocabulary
        self.followed_V = np.bincount(first_K, weights=counts_K, minlength=self.vocabulary)
        self.distinct_V = np.bincount(first_K, minlength=self.vocabulary).astype(np.float64)
        beyond = self.vocabulary**2  # a last key above all others, seen 0 times: every search ends at a key
        self.pairs_K, self.counts_K = np.append(pairs_K, beyond), np.append(counts_K, 0)

    def probabilities(self, previous_N: np.ndarray, next_N: np.ndarray) -> np.ndarray:
        pairs_N = previous_N * self.vocabulary + next_N
        place_N = np.searchsorted(self.pairs_K, pairs_N)
        counts_N = np.where(self.pairs_K[place_N] == pairs_N, self.counts_K[place_N], 0)
        smooth_N = self.unigram.probabilities(previous_N, next_N)
        distinct_N = self.distinct_V[previous_N]
        total_N = self.followed_V[previous_N] + distinct_N
        mixed_N = (counts_N + distinct_N * smooth_N) / np.maximum(total_N, 1.0)
        return np.asarray(np.where(total_N > 0, mixed_N, smooth_N))


def trivial_baselines(training: np.ndarray, vocabulary: int) -> dict[str, Baseline]:
    """The three that are counted, best last, from the tokens the model was trained on."""
    unigram = Unigram(training, vocabulary)
    return {"uniform": Uniform(vocabulary), "unigram": unigram, "bigram": Bigram(training, unigram)}


def not_better_than_trivial(model: DocumentLosses, baselines: Mapping[str, DocumentLosses]) -> str | None:
    """A sentence when the model is not clearly better than the best baseline, else None.

    Model and baseline are compared on the same documents, pair by pair: what makes a document hard for both cancels.
    """
    own = ratio(model.nats, model.tokens)
    losses = {name: ratio(baseline.nats, baseline.tokens) for name, baseline in baselines.items()}
    known = {name: loss.value for name, loss in losses.items() if loss.value is not None}
    if not known:
        return None
    best = min(known, key=lambda name: known[name])
    if own.value is None:
        return f"The model gives no loss ({own.reason}); the {best} baseline gives {known[best]:.4f} nats per token."
    gain = ratio(baselines[best].nats - model.nats, model.tokens)
    assert gain.value is not None
    figures = f"loss {own.value:.4f} against {known[best]:.4f}"
    if gain.value <= 0:
        return f"The model is not better than the {best} baseline on these texts ({figures})."
    if gain.low is None or gain.high is None:
        return None  # one short text: there is nothing to judge the difference by
    if gain.low <= 0:
        return (
            f"The model is not clearly better than the {best} baseline on these texts ({figures}; "
            f"the gain of {gain.value:.4f} nats per token may be anything from {gain.low:.4f} to {gain.high:.4f})."
        )
    return None


def _counted_chunks(tokens: np.ndarray, vocabulary: int, overlap: int = 0) -> Iterator[np.ndarray]:
    """Consecutive pieces as int64 (each with ``overlap`` tokens of the next), spread evenly when there are too many tokens."""
    pieces = range(0, len(tokens), CHUNK)
    stride = max(1, math.ceil(len(tokens) / COUNTED))
    for at in pieces if stride == 1 else pieces[::stride]:
        ids_N = np.asarray(tokens[at : at + CHUNK + overlap]).astype(np.int64)
        if ids_N.min() < 0 or ids_N.max() >= vocabulary:
            raise DataError(
                f"The training tokens hold the id {ids_N.max()}, but the vocabulary has the ids 0 to {vocabulary - 1}."
            )
        yield ids_N
        release_pages(tokens)


def _count_pairs(tokens: np.ndarray, vocabulary: int) -> tuple[np.ndarray, np.ndarray]:
    """The pairs of neighbours that occur, as rising keys ``first * vocabulary + second``, and how often each does."""
    chunks = (ids_N[:-1] * vocabulary + ids_N[1:] for ids_N in _counted_chunks(tokens, vocabulary, overlap=1))
    if vocabulary <= DENSE_VOCABULARY:
        table = np.zeros(vocabulary * vocabulary, np.int64)
        for pairs_N in chunks:
            table += np.bincount(pairs_N, minlength=len(table))
        found = np.flatnonzero(table)
        return found, table[found]
    keys, counts = np.empty(0, np.int64), np.empty(0, np.int64)
    for pairs_N in chunks:
        new_keys, new_counts = np.unique(pairs_N, return_counts=True)
        keys, place = np.unique(np.concatenate([keys, new_keys]), return_inverse=True)
        counts = np.bincount(place, weights=np.concatenate([counts, new_counts])).astype(np.int64)
    return keys, counts
