"""Losses by token -> sums by unit (document or block) and by position -> the metrics of a language model with intervals.

A unit is a document, or a block of 1,000 tokens when there is only one document. A few numbers per unit are stored, so that
token files larger than memory work, and studies can pair units later. Perplexity by token, the mean of the documents'
perplexities, perplexity by word and bits per byte are different numbers (docs/evaluation.md); an undefined metric is None
with a reason. Imports no torch.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from glassformer.evaluation.interval_estimates import mean, ratio
from glassformer.evaluation.results import Outcomes, Units
from glassformer.foundation.errors import DataError
from glassformer.foundation.estimate import Estimate
from glassformer.foundation.metrics import BITS_PER_BYTE, LOSS, Metric

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
            raise DataError(f"Tokens must be one long array, not one of shape {self.tokens.shape}.", reason="tokens-shape")
        starts = self.document_starts
        if len(starts) == 0 or starts[0] != 0 or np.any(np.diff(starts) < 0) or starts[-1] > len(self.tokens):
            raise DataError(
                "Document starts must begin with 0, never fall, and stay inside the tokens.", reason="document-starts"
            )
        for name in ("words", "characters", "text_bytes"):
            sizes = getattr(self, name)
            if sizes is not None and len(sizes) != len(starts):
                raise DataError(
                    f"There are {len(sizes)} counts of {name} for {len(starts)} documents; there must be one each.",
                    reason="document-sizes",
                )

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
                predicted = max(len(text.tokens) - 1, 0)
                raise DataError(f"There are more losses than the {predicted} predicted tokens.", reason="number-of-losses")
            unit = np.searchsorted(starts, np.arange(at, at + len(chunk)), side="right") - 1
            first = int(unit[0])
            for name, values in _by_token(chunk, ids, text).items():
                added = np.bincount(unit - first, weights=values)
                sums[name][first : first + len(added)] += added
            at += len(chunk)
        if at < len(text.tokens):
            sentence = f"There are losses for {at - 1} tokens, but {len(text.tokens) - 1} tokens to predict."
            raise DataError(sentence, reason="number-of-losses")
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
    if not np.isnan(losses.bytes).any() and losses.bytes.sum() > 0:
        units["bits_per_byte"] = Units(_by_size(losses.nats / math.log(2.0), losses.bytes), losses.bytes)
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
        f"{_percent(unknown / tokens)} of the predicted tokens are UNK, which stands for what training never saw and is easier "
        "to guess: compare perplexities only with models of the same vocabulary."
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
        "perplexity": mapped(loss, math.exp),
        "document_perplexity": _document_perplexity(documents),
        "word_perplexity": mapped(by_word, math.exp),
        "character_perplexity": mapped(by_character, math.exp),
        "bits_per_byte": mapped(by_byte, lambda nats: nats / math.log(2.0)),
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
        return mapped(ratio(documents.nats, documents.tokens, blocks=True), math.exp)
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
    return ratio(_by_size(documents.nats, sizes), sizes, blocks=documents.unit == "block")


def _by_size(nats: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Units of special tokens alone have nats but no size: they are distributed over the others, to keep the total."""
    return np.where(sizes > 0, nats + nats[sizes == 0].sum() * sizes / max(float(sizes.sum()), 1.0), 0.0)


def _share(documents: DocumentLosses) -> Estimate:
    return ratio(documents.unknown, documents.tokens, blocks=documents.unit == "block").within((0.0, 1.0))


def _why_no_bytes(documents: DocumentLosses) -> str:
    unknown, tokens = int(documents.unknown.sum()), int(documents.tokens.sum())
    if unknown:
        return f"{_percent(unknown / tokens)} of the tokens are UNK, whose bytes are not known"
    return "this tokenizer does not say how many bytes a token stands for"


def mapped(estimate: Estimate, function: Callable[[float], float]) -> Estimate:
    """A monotone function of an estimate; no value on overflow."""
    try:
        value, low, high = (None if x is None else function(x) for x in (estimate.value, estimate.low, estimate.high))
    except OverflowError:
        return Estimate(None, n=estimate.n, reason="larger than any number of this machine")
    return Estimate(value, low, high, estimate.n, estimate.reason)
