"""Accuracies with Wilson intervals, and McNemar's test between two checkpoints. Imports no torch.

For one run, or two checkpoints on the same items. Several seeds are analysed by the two-way random effects of a study.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Self

import numpy as np

from glassformer.evaluation.results import Outcomes
from glassformer.foundation.distributions import normal_quantile
from glassformer.foundation.errors import RunError, UsageError
from glassformer.foundation.estimate import Estimate
from glassformer.foundation.metrics import Metric


def wilson(right: int, items: int, confidence: float = 0.95) -> Estimate:
    """The share of right answers of one run, with Wilson's interval."""
    if items == 0:
        return Estimate(None, reason="no items were asked")
    z2 = normal_quantile(0.5 + confidence / 2) ** 2
    share = right / items
    centre = (share + z2 / (2 * items)) / (1 + z2 / items)
    half = math.sqrt(z2 * (share * (1 - share) / items + z2 / (4 * items**2))) / (1 + z2 / items)
    low = 0.0 if right == 0 else max(0.0, centre - half)  # exactly: rounding gave 0.9999999999999999 for all of 52
    high = 1.0 if right == items else min(1.0, centre + half)
    return Estimate(share, low, high, items)


@dataclass(frozen=True)
class TwoCheckpoints:
    """How many items both, only the first, only the second and neither got right, and McNemar's mid-p."""

    both: int
    only_first: int
    only_second: int
    neither: int

    @classmethod
    def of(cls, first_N: np.ndarray, second_N: np.ndarray) -> Self:
        """From right (1) and wrong (0) on the same items."""
        one, other = first_N > 0.5, second_N > 0.5
        counts = (one & other, one & ~other, ~one & other, ~one & ~other)
        return cls(*(int(count.sum()) for count in counts))

    @property
    def p(self) -> float:
        return mcnemar_mid_p(self.only_first, self.only_second)

    def to_dict(self) -> dict[str, float]:
        return {**asdict(self), "p": self.p}

    def __str__(self) -> str:
        return (
            f"Of these two checkpoints, only the first is right on {self.only_first} items, only the second on "
            f"{self.only_second}, both on {self.both}, neither on {self.neither}; McNemar's mid-p {self.p:.4f}. Other seeds "
            "may differ more than that: `glassformer compare` decides about recipes."
        )


def paired(
    metric: Metric, first: Callable[[], Outcomes | None], second: Callable[[], Outcomes | None], who: str
) -> TwoCheckpoints:
    """Compares two evaluations of the same items; raises if they cannot be paired."""
    if not metric.answers:
        raise UsageError(f"{metric.name} is not a count of right answers, so two checkpoints cannot be compared by it.")
    one, other = first(), second()
    same = one is not None and other is not None and one.ids == other.ids and one.fingerprint == other.fingerprint
    if one is None or other is None or one.ids is None or not same or metric.name not in other.units:
        raise RunError(
            f"{who} were evaluated on different items, so they cannot be paired; give one file for both with --data."
        )
    return TwoCheckpoints.of(one.units[metric.name].sums, other.units[metric.name].sums)


def mcnemar_mid_p(only_first: int, only_second: int) -> float:
    """Mid-p of McNemar's exact test: items that only one of *these two checkpoints* got right. Not for several seeds."""
    fewer, total = min(only_first, only_second), only_first + only_second
    if only_first == only_second:
        return 1.0
    below = sum(math.comb(total, i) for i in range(fewer))
    # 2 (P(X < fewer) + P(X = fewer) / 2), in whole numbers until the last division
    return float((2 * below + math.comb(total, fewer)) / 2**total)
