"""Power analysis: the difference that n seeds detect, and how many seeds an undecided study would need.

The unit of a difference is the standard deviation over seeds of the paired differences. Imports no torch.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from glassformer.foundation.distributions import chi_square_quantile, normal_quantile, t_upper
from glassformer.study.statistics.corrections import ALPHA, FIRST_STUDY
from glassformer.study.statistics.two_way import TwoWayEffects

POWER = 0.8
FEWEST_SEEDS = 6  # below this no verdict is given: with 5 seeds even 5 of 5 has a sign-flip p of .0625
NEXT_STUDY = 0.2
"""The nominal p, as a fraction of alpha, at which a second study finds a change when it doubles the seeds."""


def detectable(seeds: int, changes: int = 1, alpha: float = ALPHA, power: float = POWER) -> float:
    """The difference, in sd of the paired differences, that a first study of ``seeds`` seeds detects with the given power.

    Given a true difference, the test statistic has the noncentral t distribution.
    """
    from scipy.special import nctdtrinc

    critical = float(t_upper(FIRST_STUDY * alpha / (2 * changes), seeds - 1))
    return float(nctdtrinc(seeds - 1, 1.0 - power, critical)) / math.sqrt(seeds)


@dataclass(frozen=True)
class SeedsNeeded:
    """About how many seeds in all would decide, with a range, since the noise is estimated from few seeds."""

    value: int | None
    low: int | None = None
    high: int | None = None
    reason: str | None = None

    def to_dict(self) -> dict[str, Any]:
        document: dict[str, Any] = {"value": self.value, "low": self.low, "high": self.high}
        return document if self.reason is None else {**document, "reason": self.reason}

    def __str__(self) -> str:
        if self.value is None:
            return self.reason or "not known"
        return f"about {self.value} seeds ({self.low} to {self.high})"


MORE_DOCUMENTS = "more documents are needed; no number of seeds is enough"
MORE_TUNING = "more tuning seeds are needed; no number of other seeds is enough"


def seeds_needed(effects: TwoWayEffects, difference: float, changes: int = 1, alpha: float = ALPHA) -> SeedsNeeded:
    """Seeds, these included, with which a next study detects ``difference`` (never the observed one) with power 80 %.

    The variance over seeds is itself an estimate. The number gives an average power of 80 % over its uncertainty; the range
    uses the two ends of its 80 % interval.
    """
    from scipy.special import nctdtrit

    n = effects.seeds
    if n < 2:
        return SeedsNeeded(None, reason="one seed says nothing about the noise")
    low_factor, high_factor = (float((n - 1) / chi_square_quantile(q, n - 1)) for q in (0.9, 0.1))
    z = _critical(changes, alpha)
    # over the uncertainty of the noise, the statistic of the study that is planned has the noncentral t distribution
    average_factor = float(nctdtrit(n - 1, z, POWER) / (z + normal_quantile(POWER))) ** 2
    permitted, documents = difference**2 / (z + normal_quantile(POWER)) ** 2, float(effects.document_variance)
    room = permitted - documents - effects.from_tuning
    if not room > 0.0:
        return SeedsNeeded(None, reason=MORE_DOCUMENTS if documents > effects.from_tuning else MORE_TUNING)
    low, value, high = (
        max(FEWEST_SEEDS, math.ceil(float(effects.seed_variance) * factor / room + z**2 / 2))
        for factor in (low_factor, average_factor, high_factor)
    )
    return SeedsNeeded(value, low, high)


def documents_wanted(effects: TwoWayEffects, difference: float, changes: int = 1, alpha: float = ALPHA) -> int | None:
    """About how many documents would leave half of the permitted variance to the seeds; None where there are enough."""
    permitted = 0.5 * difference**2 / (_critical(changes, alpha) + normal_quantile(POWER)) ** 2
    have = float(effects.document_variance)
    return math.ceil(effects.documents * have / permitted) if math.isfinite(have) and have > permitted else None


def _critical(changes: int, alpha: float) -> float:
    """The z that a difference must reach in the next study."""
    return normal_quantile(1.0 - NEXT_STUDY * alpha / (2 * changes))
