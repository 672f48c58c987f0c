"""Sums over units -> a ratio with its 95 % interval, by leaving out one unit at a time.

The jackknife: the figure is computed again without each document in turn; the spread of these figures gives the standard
error, and Student's t with as many degrees of freedom as there are documents of equal weight gives the interval. It was
chosen by simulation (docs/evaluation.md): the percentile bootstrap covers too rarely when documents are few or unequal.
No random numbers, so the same losses give the same interval.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from glassformer.foundation.estimate import Estimate


def ratio(numerators: np.ndarray, denominators: np.ndarray, *, level: float = 0.95) -> Estimate:
    """``sum(numerators) / sum(denominators)`` over units drawn together, with its interval.

    Units with a denominator of 0 say nothing and are left out. Below two units there is a value and no interval.
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
    shift = (top - value * bottom) / (total - bottom)  # minus the change of the ratio when a unit is left out
    error = math.sqrt((n - 1) / n * float(np.sum(shift**2)))
    half = t_quantile(0.5 + level / 2, degrees_of_freedom(bottom)) * error
    return Estimate(value, value - half, value + half, n)


def mean(values: np.ndarray, *, level: float = 0.95) -> Estimate:
    """The mean over units of equal weight: Student's interval."""
    return ratio(values, np.ones(len(values)), level=level)


def degrees_of_freedom(weights: np.ndarray) -> float:
    """How many units of equal weight carry as much evidence, less one: one long document counts for little more than one."""
    share = weights / weights.sum()
    return max(1.0, 1.0 / float(np.sum(share**2)) - 1.0)


@lru_cache(maxsize=4096)
def t_quantile(probability: float, df: float) -> float:
    """The point below which Student's t with ``df`` degrees of freedom lies with ``probability``."""
    if not 0.0 < probability < 1.0:
        raise ValueError(f"probability={probability} must lie between 0 and 1")
    if probability < 0.5:
        return -t_quantile(1.0 - probability, df)
    low, high = 0.0, 1.0
    while t_distribution(high, df) < probability:
        high *= 2.0
    for _ in range(200):  # halving from 1: about 60 steps reach the last bit of a double
        middle = (low + high) / 2.0
        if middle in (low, high):
            break
        low, high = (middle, high) if t_distribution(middle, df) < probability else (low, middle)
    return (low + high) / 2.0


def t_distribution(t: float, df: float) -> float:
    """The probability that Student's t with ``df`` degrees of freedom is at most ``t``."""
    tail = 0.5 * _incomplete_beta(df / 2.0, 0.5, df / (df + t * t))
    return 1.0 - tail if t > 0 else tail


def _incomplete_beta(a: float, b: float, x: float) -> float:
    """The regularised incomplete beta function I_x(a, b), by its continued fraction (DLMF 8.17.22)."""
    if x <= 0.0 or x >= 1.0:
        return 0.0 if x <= 0.0 else 1.0
    if x > (a + 1.0) / (a + b + 2.0):  # the fraction converges fast below this point only
        return 1.0 - _incomplete_beta(b, a, 1.0 - x)
    log_front = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)
    return math.exp(log_front) / a / _beta_fraction(a, b, x)


def _beta_fraction(a: float, b: float, x: float) -> float:
    """1 + d1/(1 + d2/(1 + ...)) with the coefficients of DLMF 8.17.23, from the front (modified Lentz)."""
    tiny = 1e-300  # stands for a zero denominator
    value, c, d = 1.0, 1.0, 0.0
    for step in range(1, 10_000):
        m, odd = divmod(step, 2)
        if odd:
            term = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        else:
            term = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        d = 1.0 / ((1.0 + term * d) or tiny)
        c = (1.0 + term / c) or tiny
        value *= c * d
        if abs(c * d - 1.0) < 1e-15:
            break
    return value
