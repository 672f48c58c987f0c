"""What a model gave on each unit of a set: sums and weights by metric, and the figures they make. Imports no torch.

A unit is what intervals are drawn over and what a study pairs: a document, a question, a labelled text. Every objective's
``evaluate`` gives one ``Outcomes``; evaluations, reports and studies read it and ask nothing else.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np

from glassformer.evaluation.intervals import ratio
from glassformer.evaluation.neighbours import STRETCHES
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
        """The metric of each unit; 0 where the unit weighs nothing."""
        values = np.zeros(len(self.sums))
        np.divide(self.sums, self.weights, out=values, where=self.weights > 0)
        return values

    @property
    def value(self) -> float:
        """The metric over the whole set; NaN where no unit weighs anything."""
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
    """``units``: by judged metric. ``figures``: all that is shown, in order. ``scope``: what was measured, in a few words.

    ``details``: plain values kept in the evaluation file and handed to pages (a curve, a confusion matrix). ``ids``: which
    units these are, where their order alone does not say it. ``fingerprint``: a sum of what was asked, with its truth. ``raw``:
    for the objective itself. Neither of the two is written.
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
        """The figures of metrics that are plain weighted means, each with its interval over units."""
        figures = {name: ratio(one.sums, one.weights, blocks=unit in STRETCHES) for name, one in units.items()}
        count = max((len(one.sums) for one in units.values()), default=0)
        return cls(**{"units": units, "figures": figures, "unit": unit, "scope": f"{count:,} {unit}s", **more})
