"""Counts of right answers -> shares with intervals, and the test between two checkpoints. Imports no torch.

For one run, or for two checkpoints on the same items. Several seeds go through the crossed formula of a study instead.
"""

from __future__ import annotations

import math

from glassformer.foundation.distributions import normal_quantile
from glassformer.foundation.estimate import Estimate


def wilson(right: int, items: int, confidence: float = 0.95) -> Estimate:
    """The share of right answers of one run, with Wilson's interval."""
    if items == 0:
        return Estimate(None, reason="no items were asked")
    z2 = normal_quantile(0.5 + confidence / 2) ** 2
    share = right / items
    centre = (share + z2 / (2 * items)) / (1 + z2 / items)
    half = math.sqrt(z2 * (share * (1 - share) / items + z2 / (4 * items**2))) / (1 + z2 / items)
    return Estimate(share, max(0.0, centre - half), min(1.0, centre + half), items)


def mcnemar_mid_p(only_first: int, only_second: int) -> float:
    """Mid-p of McNemar's exact test: items that only one of *these two checkpoints* got right. Not for several seeds."""
    fewer, total = min(only_first, only_second), only_first + only_second
    if only_first == only_second:
        return 1.0
    below = sum(math.comb(total, i) for i in range(fewer))
    # 2 (P(X < fewer) + P(X = fewer) / 2), in whole numbers until the last division
    return float((2 * below + math.comb(total, fewer)) / 2**total)
