"""``Outcomes``: a model's results on one data set, as sums and weights by unit and as metrics. Imports no torch.

A unit is what intervals are computed over and what a study pairs: a document, a question, a labelled text. Every objective's
``evaluate`` returns one ``Outcomes``, the only input of evaluations, reports and studies.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np

from glassformer.evaluation.statistics import AUTOCORRELATED_UNITS, ratio
from glassformer.foundation.errors import RunError
from glassformer.foundation.estimate import Estimate

Floats = np.ndarray


@dataclass(frozen=True)
class Units:
    """One metric by unit: its value over the whole set is ``sum(sums) / sum(weights)``."""

    sums: Floats
    weights: Floats

    @property
    def values(self) -> Floats:
        """The metric of each unit; 0 where its weight is 0."""
        values = np.zeros(len(self.sums))
        np.divide(self.sums, self.weights, out=values, where=self.weights > 0)
        return values

    @property
    def value(self) -> float:
        """The metric over the whole set; NaN if all weights are 0."""
        total = float(self.weights.sum())
        return float(self.values @ self.weights) / total if total > 0.0 else math.nan

    def to_dict(self) -> dict[str, Any]:
        return {"sums": self.sums.tolist(), "weights": self.weights.tolist()}

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Self:
        """The inverse of ``to_dict``."""
        sums, weights = (np.asarray(document[key], dtype=np.float64) for key in ("sums", "weights"))
        if sums.shape != weights.shape or sums.ndim != 1:
            raise RunError(f"there are {sums.shape} sums for {weights.shape} weights of units.")
        return cls(sums, weights)


@dataclass(frozen=True)
class Outcomes:
    """``units``: by judged metric. ``figures``: all metrics, in order. ``scope``: the data in a few words.

    ``details``: plain values for the evaluation file and the pages (a curve, a confusion matrix). ``ids``: identify the units
    where their order does not. ``fingerprint``: a checksum of questions and answers. ``raw``: for the objective itself. The
    last two are not written.
    """

    units: Mapping[str, Units]
    figures: Mapping[str, Estimate]
    unit: str
    scope: str
    ids: Sequence[str] | None = None
    fingerprint: str | None = None
    details: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    raw: Any = None

    @classmethod
    def of_units(cls, units: Mapping[str, Units], *, unit: str, **more: Any) -> Self:
        """For metrics that are weighted means, each with its interval over units."""
        figures = {name: ratio(one.sums, one.weights, blocks=unit in AUTOCORRELATED_UNITS) for name, one in units.items()}
        count = max((len(one.sums) for one in units.values()), default=0)
        return cls(**{"units": units, "figures": figures, "unit": unit, "scope": f"{count:,} {unit}s", **more})
