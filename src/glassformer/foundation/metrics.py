"""What is measured: a metric's name, its unit, its direction and its usual margin. Imports no torch.

Objectives declare their metrics with these; plans and evaluation files carry copies, so that a study can be read and judged
without the plugin that defined them. Nothing else in the package tests for a metric's name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from glassformer.foundation.errors import UnknownName

VALIDATION = "validation_"
"""What the records of a run put before a metric's name: ``validation_loss``."""
TRAIN = "train_"
"""The same of a sample of the training items, measured as validation is: ``train_accuracy``."""
COLLAPSED_TO = "collapsed_to"
"""Recorded of a classifier while it trains where every prediction is one class: its number."""
SOURCE_GAIN = "source_gain"
"""Recorded of a translation while it trains: the nats per token that targets cost more with the sources of other pairs."""


@dataclass(frozen=True)
class Metric:
    """One figure of an evaluation.

    ``answers``: right-or-wrong items, whose paired differences are -1, 0 or 1. ``judged``: a weighted mean over units
    (documents, questions), which a study can compare; F1 or a perplexity is shown, and never judged. ``margin``: the
    difference that counts as nothing unless a plan says otherwise.
    """

    name: str
    unit: str
    about: str = ""
    lower_is_better: bool = True
    answers: bool = False
    judged: bool = True
    margin: float | None = None

    def better(self, difference: float) -> bool:
        """Whether ``difference`` (variant minus baseline) is an improvement."""
        return difference < 0 if self.lower_is_better else difference > 0

    def best(self, values: Mapping[int, float]) -> int:
        """The key of the best value; the first of equal ones."""
        sign = 1.0 if self.lower_is_better else -1.0
        return min(values, key=lambda key: sign * values[key])

    @property
    def bounds(self) -> tuple[float, float] | None:
        """What its values lie between: a share of right answers is never above 1. None where nothing is known."""
        return (0.0, 1.0) if self.answers else None

    @property
    def difference_bounds(self) -> tuple[float, float] | None:
        """What a difference of two of its values lies between."""
        return None if self.bounds is None else (self.bounds[0] - self.bounds[1], self.bounds[1] - self.bounds[0])

    @property
    def recorded(self) -> str:
        """Its name in the records of a run."""
        return VALIDATION + self.name

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Metric:
        return cls(**{key: values[key] for key in cls.__dataclass_fields__ if key in values})

    @classmethod
    def named(cls, name: str, among: Iterable[Metric] | None = None) -> Metric:
        """The metric of this name ``among`` those of an objective; without them, of those every version has known."""
        known = {metric.name: metric for metric in (KNOWN if among is None else among)}
        if name not in known:
            raise UnknownName("metric", name, known)
        return known[name]


# Perplexity is not judged on purpose: its mean is ruled by the worst documents. The loss is its logarithm.
LOSS = Metric("loss", "nats per token", "nats per token", margin=0.01)
BITS_PER_BYTE = Metric("bits_per_byte", "bits per byte", "per byte of UTF-8 text", margin=0.01)
ACCURACY = Metric("accuracy", "of all items", "right of all items", lower_is_better=False, answers=True, margin=0.01)
EXACT_MATCH = Metric("exact_match", "of all items", "right to the letter", lower_is_better=False, answers=True, margin=0.01)
KNOWN = (LOSS, BITS_PER_BYTE, ACCURACY, EXACT_MATCH)
"""What a plan may name that does not carry a metric of its own."""
