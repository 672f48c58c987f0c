"""Losses by document -> the named figures of a language model, each with its interval.

Perplexity by token, the mean of the documents' perplexities, perplexity by word and bits per byte are different numbers
(docs/evaluation.md says when and why); a figure without meaning is None with the reason. Imports no torch.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from glassformer.evaluation.documents import DocumentLosses
from glassformer.evaluation.intervals import mean, ratio
from glassformer.foundation.estimate import Estimate

LANGUAGE_METRICS = {
    "loss": "nats per token",
    "perplexity": "e to the loss",
    "document_perplexity": "mean of each document's own",
    "word_perplexity": "per white-space word",
    "character_perplexity": "per character",
    "bits_per_byte": "per byte of UTF-8 text",
    "unknown_share": "of the tokens are UNK",
}
"""Every figure of a language model, in the order of the tables, and in a few words what it is."""


def language_metrics(documents: DocumentLosses) -> dict[str, Estimate]:
    """The figures of ``LANGUAGE_METRICS``; intervals are drawn over documents (or blocks of the only document)."""
    loss = ratio(documents.nats, documents.tokens)
    by_word = _nats_per(documents, documents.words, "the number of words of these texts is not known")
    by_character = _nats_per(documents, documents.characters, "the number of characters of these texts is not known")
    by_byte = _nats_per(documents, documents.bytes, _why_no_bytes(documents))
    figures = {
        "loss": loss,
        "perplexity": _mapped(loss, math.exp),
        "document_perplexity": _document_perplexity(documents),
        "word_perplexity": _mapped(by_word, math.exp),
        "character_perplexity": _mapped(by_character, math.exp),
        "bits_per_byte": _mapped(by_byte, lambda nats: nats / math.log(2.0)),
        "unknown_share": _share(documents),
    }
    assert list(figures) == list(LANGUAGE_METRICS)
    return figures


def document_perplexities(documents: DocumentLosses) -> np.ndarray:
    """The perplexity of each unit on its own; NaN where no token was predicted, infinity where it is beyond all numbers."""
    losses = np.full(len(documents.nats), np.nan)
    np.divide(documents.nats, documents.tokens, out=losses, where=documents.tokens > 0)
    with np.errstate(over="ignore"):
        return np.asarray(np.exp(losses))


def _document_perplexity(documents: DocumentLosses) -> Estimate:
    if documents.documents <= 1:  # one document's perplexity is the perplexity; its blocks carry the interval
        return _mapped(ratio(documents.nats, documents.tokens), math.exp)
    found = mean(document_perplexities(documents)[documents.tokens > 0])
    if found.value is None or found.high is None:
        return found
    # Perplexities are skewed and positive, so the interval is drawn on the scale of their logarithm: where it differs
    # from the plain one it covers more often (bench/interval_coverage.py).
    try:
        spread = math.exp((found.high - found.value) / found.value)
    except OverflowError:
        return replace(found, low=None, high=None)
    return replace(found, low=found.value / spread, high=found.value * spread)


def _nats_per(documents: DocumentLosses, sizes: np.ndarray, why_unknown: str) -> Estimate:
    if np.isnan(sizes).any():
        return Estimate(None, reason=why_unknown)
    # a unit of marks alone has nats and no size: its nats are spread over all, so that the sum stays that of the text
    return ratio(*_joined(documents.nats, sizes))


def _joined(nats: np.ndarray, sizes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    empty = sizes == 0
    if not empty.any() or empty.all():
        return nats, sizes
    return nats[~empty] + float(nats[empty].sum()) * sizes[~empty] / float(sizes.sum()), sizes[~empty]


def _share(documents: DocumentLosses) -> Estimate:
    share = ratio(documents.unknown, documents.tokens)
    if share.low is None or share.high is None:
        return share
    return replace(share, low=max(share.low, 0.0), high=min(share.high, 1.0))


def _why_no_bytes(documents: DocumentLosses) -> str:
    unknown, tokens = int(documents.unknown.sum()), int(documents.tokens.sum())
    if unknown:
        return f"{unknown / tokens:.1%} of the tokens are UNK, which stands for no certain number of bytes"
    return "this tokenizer does not say how many bytes a token stands for"


def _mapped(estimate: Estimate, function: Callable[[float], float]) -> Estimate:
    """A rising function of an estimate; where it leaves the numbers of the machine there is no value, or no interval."""
    try:
        value, low, high = (None if x is None else function(x) for x in (estimate.value, estimate.low, estimate.high))
    except OverflowError:
        return Estimate(None, n=estimate.n, reason="larger than any number of this machine")
    return Estimate(value, low, high, estimate.n, estimate.reason)
