"""Student's t, normal, chi-square and beta: probabilities and quantiles, from numpy alone.

Numbers or arrays in, the same shape out, to ten digits or more (scipy is the oracle in the tests and is not needed to run).
Degrees of freedom may be fractions, because Satterthwaite's are. Knows nothing of seeds and documents.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
_NORMAL = NormalDist()
_TINY = 1e-300
_log_gamma = np.vectorize(math.lgamma, otypes=[np.float64])
_erfc = np.vectorize(math.erfc, otypes=[np.float64])


def normal_cdf(z: npt.ArrayLike) -> Floats:
    """P(Z <= z); keeps its relative accuracy far out in the lower tail."""
    return np.asarray(0.5 * _erfc(-np.asarray(z, dtype=np.float64) / math.sqrt(2.0)))


def normal_quantile(probability: float) -> float:
    """The z with P(Z <= z) = probability."""
    return _NORMAL.inv_cdf(probability)


def incomplete_beta(a: npt.ArrayLike, b: npt.ArrayLike, x: npt.ArrayLike) -> Floats:
    """The regularised incomplete beta function I_x(a, b): P(X <= x) for X of the beta distribution (a, b)."""
    x_ = np.asarray(x, dtype=np.float64)
    return _incomplete_beta(np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64), x_, 1.0 - x_)


def _incomplete_beta(a: Floats, b: Floats, x: Floats, y: Floats) -> Floats:
    """I_x(a, b) with y = 1 - x given apart, because near x = 1 the subtraction would lose all digits of y."""
    a, b, x, y = (np.array(part) for part in np.broadcast_arrays(a, b, x, y))
    swap = x > (a + 1.0) / (a + b + 2.0)  # the fraction converges fast on one side of the mean; there I_x(a,b) = 1 - I_y(b,a)
    a, b, x, y = np.where(swap, b, a), np.where(swap, a, b), np.where(swap, y, x), np.where(swap, x, y)
    with np.errstate(divide="ignore"):
        front = np.exp(a * _log_of_part(x, y) + b * _log_of_part(y, x) - _log_beta(a, b)) / a
    value = np.where(x <= 0.0, 0.0, front * _beta_fraction(a, b, x).reshape(x.shape))
    return np.clip(np.where(swap, 1.0 - value, value), 0.0, 1.0)


def _log_of_part(part: Floats, rest: Floats) -> Floats:
    """log(part) where part + rest = 1: near one the digits are in the rest."""
    return np.where(rest < 0.5, np.log1p(-np.minimum(rest, 0.5)), np.log(part))


def _log_beta(a: Floats, b: Floats) -> Floats:
    """log B(a, b). With one side large, the difference of two large log-gammas would cost digits: a series replaces it."""
    small, large = np.minimum(a, b), np.maximum(a, b)
    direct = _log_gamma(small) + _log_gamma(large) - _log_gamma(small + large)
    # log Gamma(L + s) - log Gamma(L) by Stirling's formula with its correction terms, written without large cancelling parts
    rise = (large + small - 0.5) * np.log1p(small / large) + small * (np.log(large) - 1.0)
    rise += _stirling_rest(large + small) - _stirling_rest(large)
    return np.asarray(np.where(large > 20.0, _log_gamma(small) - rise, direct))


def _stirling_rest(x: Floats) -> Floats:
    """log Gamma(x) minus its Stirling approximation, for x above 20."""
    inverse = 1.0 / x
    square = inverse * inverse
    return inverse * (1.0 / 12 - square * (1.0 / 360 - square * (1.0 / 1260 - square * (1.0 / 1680 - square / 1188))))


def _beta_fraction(a: Floats, b: Floats, x: Floats) -> Floats:
    """The continued fraction of the incomplete beta function, by Lentz's method; elements leave as they converge."""

    def away_from_zero(value: Floats) -> Floats:
        return np.where(np.abs(value) < _TINY, _TINY, value)

    result = np.empty(x.size)
    at = np.arange(x.size)
    a, b, x = a.ravel(), b.ravel(), x.ravel()
    c, d = np.ones_like(x), 1.0 / away_from_zero(1.0 - (a + b) * x / (a + 1.0))
    fraction, step = d.copy(), 0
    while at.size:  # about sqrt(max(a, b)) steps are needed
        step += 1
        for weight in (
            step * (b - step) * x / ((a + 2 * step - 1.0) * (a + 2 * step)),
            -(a + step) * (a + b + step) * x / ((a + 2 * step) * (a + 2 * step + 1.0)),
        ):
            d = 1.0 / away_from_zero(1.0 + weight * d)
            c = away_from_zero(1.0 + weight / c)
            fraction = fraction * d * c
        going = (np.abs(d * c - 1.0) > 1e-15) & (step < 20_000)
        if not going.all():
            result[at[~going]] = fraction[~going]
            at = at[going]
            a, b, x, c, d, fraction = (part[going] for part in (a, b, x, c, d, fraction))
    return result


def t_two_sided(t: npt.ArrayLike, df: npt.ArrayLike) -> Floats:
    """P(|T| >= |t|): the two-sided p of a t statistic. Infinite t gives 0."""
    t_, df_ = np.broadcast_arrays(np.asarray(t, dtype=np.float64), np.asarray(df, dtype=np.float64))
    with np.errstate(over="ignore", invalid="ignore"):
        ratio = t_ * t_ / df_
        x, y = 1.0 / (1.0 + ratio), np.where(np.isinf(ratio), 1.0, ratio / (1.0 + ratio))
    return _incomplete_beta(df_ / 2.0, np.full_like(x, 0.5), x, y)


def t_quantile(probability: npt.ArrayLike, df: npt.ArrayLike) -> Floats:
    """The t with P(T <= t) = probability."""
    probability_, df_ = np.broadcast_arrays(np.asarray(probability, dtype=np.float64), np.asarray(df, dtype=np.float64))
    upper = np.where(probability_ > 0.5, 1.0 - probability_, probability_)
    return np.where(probability_ > 0.5, 1.0, -1.0) * t_upper(upper, df_)


def t_upper(tail: npt.ArrayLike, df: npt.ArrayLike) -> Floats:
    """The t >= 0 with P(T > t) = tail, for tails up to one half; Newton on log P over log t, kept inside a bracket."""
    tail_, df_ = (np.array(part) for part in np.broadcast_arrays(np.asarray(tail, np.float64), np.asarray(df, np.float64)))
    with np.errstate(divide="ignore"):
        wanted = np.log(2.0 * tail_)
    low, high = np.full_like(tail_, -40.0), np.full_like(tail_, 340.0)  # log t; t**2 is finite up to here
    u = np.log(np.maximum(np.abs(_rough_quantile(tail_)), 1e-3))
    log_beta = _log_beta(df_ / 2.0, np.full_like(u, 0.5))
    for _ in range(200):
        t = np.exp(u)
        p = np.maximum(t_two_sided(t, df_), _TINY)
        gap = np.log(p) - wanted
        low, high = np.where(gap > 0, u, low), np.where(gap > 0, high, u)
        density = 2.0 * np.exp(-0.5 * (df_ + 1.0) * np.log1p(t * t / df_) - log_beta) / np.sqrt(df_)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            step = u + gap * p / (density * t)
        inside = (step >= low) & (step <= high)
        after = np.where(inside, step, 0.5 * (low + high))
        if np.all((np.abs(after - u) < 1e-13) | (tail_ >= 0.5) | (tail_ <= 0.0)):
            break
        u = after
    return np.where(tail_ >= 0.5, 0.0, np.where(tail_ <= 0.0, np.inf, np.exp(u)))


def _rough_quantile(tail: Floats) -> Floats:
    """Where the search for a quantile starts: the normal tail to about one digit."""
    with np.errstate(divide="ignore"):
        depth = np.sqrt(-2.0 * np.log(np.clip(tail, _TINY, 0.5)))
    return depth - (2.30753 + 0.27061 * depth) / (1.0 + depth * (0.99229 + depth * 0.04481))


def chi_square_cdf(x: float, df: float) -> float:
    """P(X <= x), by the series below the mean and the continued fraction above it."""
    a, z = 0.5 * df, 0.5 * x
    if z <= 0.0:
        return 0.0
    front = math.exp(a * math.log(z) - z - math.lgamma(a))
    if z < a + 1.0:
        term = total = 1.0 / a
        step = a
        while abs(term) > 1e-17 * total:
            step += 1.0
            term *= z / step
            total += term
        return front * total
    b = z + 1.0 - a
    c, d = 1.0 / _TINY, 1.0 / b
    fraction = d
    for i in range(1, 10_000):
        weight = -i * (i - a)
        b += 2.0
        d, c = 1.0 / (weight * d + b or _TINY), b + weight / c or _TINY
        fraction *= d * c
        if abs(d * c - 1.0) < 1e-16:
            break
    return 1.0 - front * fraction


def chi_square_quantile(probability: float, df: float) -> float:
    """The x with P(X <= x) = probability."""
    high = df + 10.0
    while chi_square_cdf(high, df) < probability:
        high *= 2.0
    return _bisect(lambda x: chi_square_cdf(x, df) - probability, 0.0, high)


def beta_quantile(probability: float, a: float, b: float) -> float:
    """The x with I_x(a, b) = probability."""
    return _bisect(lambda x: float(incomplete_beta(a, b, x)) - probability, 0.0, 1.0)


def _bisect(rising: Callable[[float], float], low: float, high: float) -> float:
    """The root of a rising function, to the last bit that halving can reach."""
    for _ in range(200):
        middle = 0.5 * (low + high)
        if middle in (low, high):
            break
        if rising(middle) < 0.0:
            low = middle
        else:
            high = middle
    return 0.5 * (low + high)
