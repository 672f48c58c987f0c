"""A classifier and texts -> labels with probabilities, withheld where they are unsure; and the same for a table, row by row.

A text gets one label, several labels, or a number with an interval, as the run was trained (``Target``). Batches hold texts of
similar length. Probabilities have the temperature that the run's validation texts ask for (``decision``),
and each prediction says whether its text is unlike anything seen. A table is read and written in pieces, so its length does
not matter, and all its columns stay.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, final

import numpy as np
import torch

from glassformer.data.labels.label_batches import EncodedTexts, encoded_texts, in_order
from glassformer.data.labels.labelled_texts import LabelledTexts
from glassformer.data.labels.texts_to_classify import unlabelled_texts
from glassformer.data.reading.corpus import Target
from glassformer.data.tokenizers.base import Tokenizer
from glassformer.evaluation.abstaining import Answer
from glassformer.evaluation.decision import MOST_UNKNOWN, Reference, tempered
from glassformer.foundation.errors import UsageError
from glassformer.model.network import Network, evaluating
from glassformer.objectives.labels import as_batch, scores_and_features

MOST_FITTED = 5000
"""Training and validation texts that a reference is fitted on."""
AT_ONCE, AT_ONCE_ON_A_CPU = 32, 8
"""Texts of one forward pass. On a CPU more are slower: what a layer gives no longer fits into its caches."""
PIECE = 2048
"""Rows of a table that are predicted at a time, sorted by length."""


class Scores(NamedTuple):
    """Of N texts: the network's scores, the mean of the vectors of each, and the share of tokens that the tokenizer lacks."""

    scores_NC: np.ndarray
    vectors_ND: np.ndarray
    unknown_N: np.ndarray


@torch.no_grad()
def score_texts(
    network: Network, tokenizer: Tokenizer, items: LabelledTexts, *, context: int, batch_size: int | None = None
) -> Scores:
    """What the network gives for texts, in evaluation mode, in batches of similar length."""
    texts = encoded_texts(tokenizer, items, context)
    device = next(network.parameters()).device
    batch_size = batch_size or (AT_ONCE_ON_A_CPU if device.type == "cpu" else AT_ONCE)
    found: list[Any] = [None, None]
    with evaluating(network):
        for at, rows in in_order(texts, batch_size):
            batch = as_batch(rows).to(device)
            scores_BC, vectors_BD = scores_and_features(network, batch)
            if vectors_BD.ndim == 3:  # one for each token; an own network of whole rows gives one for each row
                seen_BT1 = (~batch["hidden"]).unsqueeze(-1)
                vectors_BD = (vectors_BD[:, -seen_BT1.shape[1] :] * seen_BT1).sum(1) / seen_BT1.sum(1)
            for place, part in enumerate((scores_BC.double(), vectors_BD.double())):
                if found[place] is None:
                    found[place] = np.zeros((len(texts), part.shape[1]))
                found[place][at] = part.cpu().numpy()
    return Scores(found[0], found[1], _unknown(texts, tokenizer))


def _unknown(texts: EncodedTexts, tokenizer: Tokenizer) -> np.ndarray:
    if tokenizer.unknown_id is None:
        return np.zeros(len(texts))
    return np.array([float(np.mean(ids == tokenizer.unknown_id)) for ids in texts.ids])


def fit_reference(
    network: Network, tokenizer: Tokenizer, train: LabelledTexts, held_out: LabelledTexts, *, context: int, step: int
) -> Reference:
    """The reference of a network, from at most ``MOST_FITTED`` texts of each split."""

    def some(items: LabelledTexts) -> LabelledTexts:
        if len(items) <= MOST_FITTED:
            return items
        return items[sorted(np.random.default_rng(0).permutation(len(items))[:MOST_FITTED].tolist())]

    train, held_out = some(train), some(held_out)
    seen, new = (score_texts(network, tokenizer, items, context=context) for items in (train, held_out))
    return Reference.fit(step, new.scores_NC, held_out, new.vectors_ND, seen.vectors_ND, _whole(train))


@final
@dataclass(frozen=True)
class Prediction:
    """``label`` is None where the answer is withheld. ``labels``: of a run that gives several; ``value``: of one that gives a
    number, with ``low`` and ``high`` around 90 % of such numbers. ``unlike``: the text is unlike anything seen;
    ``typicality``: the share of the validation texts that are at least as strange. None: not known."""

    label: str | None = None
    confidence: float | None = None
    probabilities: dict[str, float] = field(default_factory=dict)
    abstained: bool = False
    unlike: bool | None = None
    typicality: float | None = None
    labels: tuple[str, ...] | None = None
    value: float | None = None
    low: float | None = None
    high: float | None = None

    def to_dict(self) -> dict[str, Any]:
        seen = {"unlike": self.unlike, "typicality": self.typicality}
        if self.value is not None:
            return {"value": self.value, "low": self.low, "high": self.high, **seen}
        if self.labels is not None:
            return {"labels": list(self.labels), **seen, "probabilities": self.probabilities}
        answer = {"label": self.label, "confidence": self.confidence, "abstained": self.abstained}
        return {**answer, **seen, "probabilities": self.probabilities}

    def as_answer(self, text: str) -> Answer:
        """What ``ask`` says of a text. Of several labels the confidence is that of all decisions together, and the alternatives
        are single labels; a number has an interval instead."""
        every = sorted(self.probabilities.items(), key=lambda one: -one[1])
        if self.value is not None:
            return Answer(text, f"{self.value:.6g}", None, unlike=self.unlike, low=self.low, high=self.high)
        if self.labels is not None:
            sure = float(np.prod([chance if name in self.labels else 1 - chance for name, chance in every]))
            said = ", ".join(self.labels) or "no label"
            return Answer(text, said, sure, False, tuple(every), unlike=self.unlike, several=True)
        (best, _), *others = every
        return Answer(text, best, self.confidence, self.abstained, tuple(others), unlike=self.unlike)

    def columns(self) -> dict[str, Any]:
        """The columns that a table gets."""
        found = {name: value for name, value in self.to_dict().items() if name != "probabilities"}
        predicted = next(value for name, value in found.items() if name in ("label", "labels", "value"))
        every = {f"p({name})": chance for name, chance in self.probabilities.items()}
        more = {name: value for name, value in found.items() if name not in ("label", "labels", "value")}
        return {"predicted": ";".join(predicted) if isinstance(predicted, list) else predicted, **more, **every}


@final
class Predictor:
    """A network ready to predict. ``reference``: None where the run's texts are gone; then probabilities are as they come."""

    def __init__(
        self,
        network: Network,
        tokenizer: Tokenizer,
        label_names: Sequence[str],
        *,
        context: int,
        reference: Reference | None,
        batch_size: int | None = None,
        target: Target = "class",
        scale: tuple[float, float] | None = None,
    ) -> None:
        self.network, self.tokenizer, self.label_names = network, tokenizer, tuple(label_names)
        self.context, self.reference, self.batch_size = context, reference, batch_size
        self.target, self.scale = target, scale

    def threshold(
        self, *, precision: float | None = None, coverage: float | None = None, abstain_below: float | None = None
    ) -> tuple[float | None, str | None]:
        """(the confidence below which answers are withheld, a sentence about it); at most one of the three is given."""
        given = {"--precision": precision, "--coverage": coverage, "--abstain-below": abstain_below}
        chosen = {name: value for name, value in given.items() if value is not None}
        if len(chosen) > 1:
            raise UsageError(f"{' and '.join(chosen)} are two rules for abstaining; give one of them.", reason="two-rules")
        if chosen and self.target != "class":
            raise UsageError(
                f"{next(iter(chosen))} withholds the label of a text, and this run gives "
                f"{'several labels' if self.target == 'several' else 'a number'}; drop it.",
                reason="abstain-needs-one-label",
            )
        for name, value in chosen.items():
            if not 0 < value <= 1:
                raise UsageError(f"{name} {value} is not a share; give a number above 0 and up to 1.", reason="not-a-share")
        if abstain_below is not None or not chosen:
            return abstain_below, None
        if self.reference is None:
            raise UsageError(
                f"{next(iter(chosen))} needs the run's validation texts, which are not there; give --abstain-below P.",
                reason="no-validation",
            )
        found = (
            self.reference.for_precision(precision) if precision is not None else self.reference.for_coverage(coverage or 1.0)
        )
        return found.confidence, found.sentence()

    def predict(
        self,
        texts: Sequence[str],
        *,
        pairs: Sequence[str] | None = None,
        abstain_below: float | None = None,
        temperature: bool = True,
    ) -> list[Prediction]:
        """A prediction for each text. ``temperature``: False for the probabilities (and thresholds of one half) as the network
        gives them."""
        items = unlabelled_texts("text", texts, self.label_names, pairs)
        scores = score_texts(self.network, self.tokenizer, items, context=self.context, batch_size=self.batch_size)
        unlike = self._unlike(items, scores)
        if self.target == "class":
            return self._labels(scores.scores_NC, unlike, abstain_below, temperature)
        reference, names = self.reference, self.label_names
        if self.target == "several":
            from_C = reference.thresholds_C if reference is not None and temperature else np.zeros(len(names))
            chances_NC = 1 / (1 + np.exp(-scores.scores_NC))
            return [
                Prediction(
                    probabilities=dict(zip(names, chances.tolist())),
                    labels=tuple(name for name, score, least in zip(names, row, from_C) if score > least),
                    unlike=far[0],
                    typicality=far[1],
                )
                for row, chances, far in zip(scores.scores_NC, chances_NC, unlike)
            ]
        assert self.scale is not None
        around = np.nan if reference is None else reference.half_width
        return [
            Prediction(value=value, low=value - around, high=value + around, unlike=far[0], typicality=far[1])
            if np.isfinite(around)
            else Prediction(value=value, unlike=far[0], typicality=far[1])
            for value, far in zip((scores.scores_NC[:, 0] * self.scale[1] + self.scale[0]).tolist(), unlike)
        ]

    def _unlike(self, items: LabelledTexts, scores: Scores) -> list[tuple[bool | None, float | None]]:
        """For each text whether it is unlike anything seen, and its typicality."""
        if (reference := self.reference) is None:
            return [(None, None)] * len(items)
        texts = _whole(items)
        strange_N = reference.strangeness(scores.vectors_ND, texts)
        foreign_N = np.array([reference.foreign(text) for text in texts])
        unlike_N = (strange_N > reference.limit) | foreign_N | (scores.unknown_N > MOST_UNKNOWN)
        return list(zip(unlike_N.tolist(), reference.typicality(strange_N).tolist()))

    def _labels(
        self,
        scores_NC: np.ndarray,
        unlike: Sequence[tuple[bool | None, float | None]],
        abstain_below: float | None,
        temperature: bool,
    ) -> list[Prediction]:
        heat = self.reference.temperature if self.reference is not None and temperature else 1.0
        found = []
        for row_C, far in zip(tempered(scores_NC, heat).tolist(), unlike):
            best = int(np.argmax(row_C))
            withheld = abstain_below is not None and row_C[best] < abstain_below
            every = dict(zip(self.label_names, row_C))
            found.append(Prediction(None if withheld else self.label_names[best], row_C[best], every, withheld, *far))
        return found

    def predict_rows(
        self,
        pieces: Iterable[list[dict[str, Any]]],
        *,
        text: str,
        pair: str | None,
        abstain_below: float | None,
        temperature: bool = True,
        progress: Callable[[int], None] = lambda rows: None,
    ) -> Iterator[list[dict[str, Any]]]:
        """Rows of a table with the columns of a prediction; a row without a text has them empty."""
        for rows in pieces:
            there = [at for at, row in enumerate(rows) if _filled(row, text) and (pair is None or _filled(row, pair))]
            firsts = [str(rows[at][text]).strip() for at in there]
            seconds = None if pair is None else [str(rows[at][pair]).strip() for at in there]
            made = []
            if there:
                made = self.predict(firsts, pairs=seconds, abstain_below=abstain_below, temperature=temperature)
            nothing = dict.fromkeys(self.columns(), None) | ({"abstained": True} if self.target == "class" else {})
            found = [{**row, **nothing} for row in rows]
            for at, prediction in zip(there, made):
                found[at] |= prediction.columns()
            progress(len(rows))
            yield found

    def columns(self) -> list[str]:
        """The names of the columns that a table gets."""
        chances = dict.fromkeys(self.label_names, 0.0)
        if self.target == "number":
            return list(Prediction(value=0.0).columns())
        return list(Prediction(labels=() if self.target == "several" else None, probabilities=chances).columns())


def _whole(items: LabelledTexts) -> list[str]:
    """Each text with its pair."""
    return [items.text_of(at) for at in range(len(items))]


def _filled(row: dict[str, Any], column: str) -> bool:
    value = row.get(column)
    return value is not None and bool(str(value).strip())
