"""Student's t, normal, chi-square and beta: probabilities and quantiles by ``scipy.special``.

Numbers or arrays in, the same shape out; degrees of freedom may be fractions, because Satterthwaite's are. scipy is imported
at the first call: ``import glassformer``, training and generation do without it.
"""

from __future__ import annotations

from statistics import NormalDist

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


def normal_quantile(probability: float) -> float:
    """The z with P(Z <= z) = probability; needs no scipy."""
    return NormalDist().inv_cdf(probability)


def t_two_sided(t: npt.ArrayLike, df: npt.ArrayLike) -> Floats:
    """P(|T| >= |t|): the two-sided p of a t statistic."""
    from scipy.special import stdtr

    return np.asarray(2.0 * stdtr(df, -np.abs(t)))


def t_upper(tail: npt.ArrayLike, df: npt.ArrayLike) -> Floats:
    """The t >= 0 with P(T > t) = tail, for tails up to one half."""
    from scipy.special import stdtrit

    return np.where(np.equal(tail, 0.0), np.inf, np.abs(stdtrit(df, tail)))  # a tail of 0 is nan in scipy 1.13


def chi_square_quantile(probability: float, df: float) -> float:
    """The x with P(X <= x) = probability."""
    from scipy.special import gammaincinv

    return 2.0 * float(gammaincinv(0.5 * df, probability))


def incomplete_beta(a: npt.ArrayLike, b: npt.ArrayLike, x: npt.ArrayLike) -> Floats:
    """The regularised incomplete beta function I_x(a, b): P(X <= x) for X of the beta distribution (a, b)."""
    from scipy.special import betainc

    return np.asarray(betainc(a, b, x))


def beta_quantile(probability: float, a: float, b: float) -> float:
    """The x with I_x(a, b) = probability."""
    from scipy.special import betaincinv

    return float(betaincinv(a, b, probability))


def f_upper(f: npt.ArrayLike, df1: float, df2: float) -> Floats:
    """P(F >= f): the p of a variance ratio."""
    from scipy.special import fdtrc

    return np.asarray(fdtrc(df1, df2, f))


def f_quantile(probability: float, df1: float, df2: float) -> float:
    """The f with P(F <= f) = probability."""
    from scipy.special import fdtri

    return float(fdtri(df1, df2, probability))
