"""Losses by document -> the metrics of a language model, each with its interval.

Perplexity by token, the mean of the documents' perplexities, perplexity by word and bits per byte are different numbers
(docs/evaluation.md says when and why); an undefined metric is None with a reason. Imports no torch.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from glassformer.evaluation.outcomes import Outcomes, Units
from glassformer.evaluation.statistics import mean, ratio
from glassformer.evaluation.units import DocumentLosses, PositionLosses
from glassformer.foundation.estimate import Estimate
from glassformer.foundation.metrics import BITS_PER_BYTE, LOSS, Metric

LANGUAGE_METRICS = {
    metric.name: metric
    for metric in (
        LOSS,
        Metric("perplexity", "", "e to the loss", judged=False),
        Metric("document_perplexity", "", "mean of each document's own", judged=False),
        Metric("word_perplexity", "", "per white-space word", judged=False),
        Metric("character_perplexity", "", "per character", judged=False),
        BITS_PER_BYTE,
        Metric("unknown_share", "of the tokens", "of the tokens are UNK", judged=False),
    )
}
"""Every figure of a language model, in the order of the tables."""


def language_outcomes(losses: DocumentLosses, positions: PositionLosses | None = None) -> Outcomes:
    """The losses of a language model by document as outcomes: units for studies, and all metrics."""
    units, tokens = losses.unit, int(losses.tokens.sum())
    figures = language_metrics(losses)
    blocks = figures["loss"].n
    in_blocks = "1 document" if blocks < 2 else f"1 document, in {blocks} blocks"
    return Outcomes(
        units=language_units(losses),
        figures=figures,
        unit=units,
        scope=f"{tokens:,} predicted tokens in {in_blocks if units == 'block' else f'{losses.documents:,} documents'}",
        details={"tokens": tokens, "documents": losses.documents, **({} if positions is None else _curve(positions))},
        notes=tuple(filter(None, [_about_unknown(losses)])),
        raw=losses,
    )


def language_units(losses: DocumentLosses) -> dict[str, Units]:
    """The judged metrics: nats per token and, if every token's bytes are known, bits per byte."""
    units = {"loss": Units(losses.nats, losses.tokens.astype(np.float64))}
    sizes, nats = losses.bytes, losses.nats / math.log(2.0)
    if not np.isnan(sizes).any() and sizes.sum() > 0:
        # Units of special tokens alone have nats but no bytes: they are distributed over the others, to keep the total.
        nats = np.where(sizes > 0, nats + nats[sizes == 0].sum() * sizes / sizes.sum(), 0.0)
        units["bits_per_byte"] = Units(nats, sizes)
    return units


def _curve(positions: PositionLosses) -> dict[str, Any]:
    """Mean loss at each position of the window that any window reached, its standard error, and how many did."""
    reached = positions.n > 0
    mean, error = positions.mean[reached], positions.standard_error[reached]
    curve = {"mean": _numbers(mean), "standard_error": _numbers(error), "n": positions.n[reached].tolist()}
    return {"loss_by_position": curve}


def _numbers(values: np.ndarray) -> list[float | None]:
    """For JSON: None for values that are not finite."""
    return [value if math.isfinite(value) else None for value in values.tolist()]


def _about_unknown(losses: DocumentLosses) -> str | None:
    unknown, tokens = int(losses.unknown.sum()), int(losses.tokens.sum())
    if not unknown:
        return None
    return (
        f"{_percent(unknown / tokens)} of the predicted tokens are UNK, which is easier to guess than the word it hides: "
        "compare perplexities only with models of the same vocabulary."
    )


def _percent(share: float) -> str:
    """With one decimal; with one significant digit if that would be 0.0%."""
    return f"{share:.1%}" if share >= 0.0005 else f"{100 * share:.1g}%"


def language_metrics(documents: DocumentLosses) -> dict[str, Estimate]:
    """The metrics of ``LANGUAGE_METRICS``; intervals are over documents (or blocks of a single document)."""
    loss = ratio(documents.nats, documents.tokens, blocks=documents.unit == "block")
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
    """The perplexity of each unit; NaN where no token was predicted, infinity on overflow."""
    losses = np.full(len(documents.nats), np.nan)
    np.divide(documents.nats, documents.tokens, out=losses, where=documents.tokens > 0)
    with np.errstate(over="ignore"):
        return np.asarray(np.exp(losses))


def _document_perplexity(documents: DocumentLosses) -> Estimate:
    if documents.documents <= 1:  # then it equals the perplexity, with an interval over blocks
        return _mapped(ratio(documents.nats, documents.tokens, blocks=True), math.exp)
    found = mean(document_perplexities(documents)[documents.tokens > 0])
    if found.value is None or found.high is None:
        return found
    # Perplexities are skewed and positive, so the interval is computed on the log scale: where it differs from the plain
    # one it covers more often (bench/interval_coverage.py).
    try:
        spread = math.exp((found.high - found.value) / found.value)
    except OverflowError:
        return replace(found, low=None, high=None)
    return replace(found, low=found.value / spread, high=found.value * spread)


def _nats_per(documents: DocumentLosses, sizes: np.ndarray, why_unknown: str) -> Estimate:
    if np.isnan(sizes).any():
        return Estimate(None, reason=why_unknown)
    # units of special tokens alone have nats but no size: they are distributed over the others, to keep the total
    return ratio(*_joined(documents.nats, sizes), blocks=documents.unit == "block")


def _joined(nats: np.ndarray, sizes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    empty = sizes == 0
    if not empty.any() or empty.all():
        return nats, sizes
    return nats[~empty] + float(nats[empty].sum()) * sizes[~empty] / float(sizes.sum()), sizes[~empty]


def _share(documents: DocumentLosses) -> Estimate:
    share = ratio(documents.unknown, documents.tokens, blocks=documents.unit == "block")
    if share.low is None or share.high is None:
        return share
    return replace(share, low=max(share.low, 0.0), high=min(share.high, 1.0))


def _why_no_bytes(documents: DocumentLosses) -> str:
    unknown, tokens = int(documents.unknown.sum()), int(documents.tokens.sum())
    if unknown:
        return f"{_percent(unknown / tokens)} of the tokens are UNK, which stands for no certain number of bytes"
    return "this tokenizer does not say how many bytes a token stands for"


def _mapped(estimate: Estimate, function: Callable[[float], float]) -> Estimate:
    """A monotone function of an estimate; no value on overflow."""
    try:
        value, low, high = (None if x is None else function(x) for x in (estimate.value, estimate.low, estimate.high))
    except OverflowError:
        return Estimate(None, n=estimate.n, reason="larger than any number of this machine")
    return Estimate(value, low, high, estimate.n, estimate.reason)
