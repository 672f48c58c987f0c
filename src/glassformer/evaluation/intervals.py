"""Sums over units -> a ratio with its 95 % interval, by leaving out one unit at a time.

The jackknife: the figure is computed again without each document in turn; the spread of these figures gives the standard
error, and Student's t with as many degrees of freedom as there are documents of equal weight gives the interval. It was
chosen by simulation (docs/evaluation.md): the percentile bootstrap covers too rarely when documents are few or unequal.
No random numbers, so the same losses give the same interval. Blocks of one text go by the slow waves along it (``neighbours``):
taken as independent, their interval held the truth in 83 % of simulated texts with a lag-1 correlation of .35.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from glassformer.evaluation.neighbours import block_variance, waves
from glassformer.foundation.distributions import t_upper
from glassformer.foundation.estimate import Estimate


def ratio(numerators: np.ndarray, denominators: np.ndarray, *, level: float = 0.95, blocks: bool = False) -> Estimate:
    """``sum(numerators) / sum(denominators)`` over units drawn together, with its interval.

    Units with a denominator of 0 say nothing and are left out. Below two units there is a value and no interval. ``blocks``:
    the units are consecutive blocks of one text, and neighbours are alike: the interval is for other stretches of that text.
    """
    says_something = denominators > 0
    top, bottom = numerators[says_something].astype(np.float64), denominators[says_something].astype(np.float64)
    n = len(top)
    if n == 0:
        return Estimate(None, reason="there is nothing to measure")
    total = float(bottom.sum())
    value = float(top.sum()) / total
    if not math.isfinite(value):
        return Estimate(None, n=n, reason="not all of its numbers are finite")
    if n == 1:
        return Estimate(value, n=1)
    if blocks:
        half = _t(0.5 - level / 2, float(waves(n))) * math.sqrt(float(block_variance((top - value * bottom) / total)))
        return Estimate(value, value - half, value + half, n)
    shift = (top - value * bottom) / (total - bottom)  # minus the change of the ratio when a unit is left out
    error = math.sqrt((n - 1) / n * float(np.sum(shift**2)))
    half = _t(0.5 - level / 2, degrees_of_freedom(bottom)) * error
    return Estimate(value, value - half, value + half, n)


def mean(values: np.ndarray, *, level: float = 0.95) -> Estimate:
    """The mean over units of equal weight: Student's interval."""
    return ratio(values, np.ones(len(values)), level=level)


def degrees_of_freedom(weights: np.ndarray) -> float:
    """How many units of equal weight carry as much evidence, less one: one long document counts for little more than one."""
    share = weights / weights.sum()
    return max(1.0, 1.0 / float(np.sum(share**2)) - 1.0)


@lru_cache(maxsize=4096)
def _t(tail: float, df: float) -> float:
    """Kept, because the figures of one evaluation share their documents, and a quantile takes milliseconds."""
    return float(t_upper(tail, df))
