"""Holm's correction, the sign-flip test, outliers (Grubbs), correlation of paired seeds. Imports no torch and no scipy."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from glassformer.foundation.distributions import Floats, t_two_sided

EXACT_FLIPS = 40  # the 2^(40/2) sums over half the seeds fit into memory; with more seeds, sign flips are sampled
OUTLIER_LEVEL = 0.05  # under normal noise one study in twenty reports an outlier


def holm(p: npt.ArrayLike) -> Floats:
    """Holm's corrected p values over the last axis: the family-wise level at which each would just be significant."""
    p_ = np.asarray(p, dtype=np.float64)
    count = p_.shape[-1]
    order = np.argsort(p_, axis=-1, kind="stable")
    stepped = np.take_along_axis(p_, order, axis=-1) * (count - np.arange(count))
    corrected = np.minimum(np.maximum.accumulate(stepped, axis=-1), 1.0)
    result = np.empty_like(corrected)
    np.put_along_axis(result, order, corrected, axis=-1)
    return result


@dataclass(frozen=True)
class SignFlip:
    """The p of the sign-flip (permutation) test, which assumes no normal noise, and the smallest p so many seeds can give."""

    p: float
    floor: float


def sign_flip(seed_means: npt.ArrayLike) -> SignFlip:
    """Two-sided p: the share of the 2^n ways to flip the seeds' signs that give a mean at least as far from zero."""
    values = np.asarray(seed_means, dtype=np.float64)
    n = len(values)
    seen = abs(values.sum()) - 1e-12 * np.abs(values).sum()  # tolerance: a flip with the same sum must count despite rounding
    if n > EXACT_FLIPS:
        draws, rng = 200_000, np.random.default_rng(n)
        sums = np.abs((2.0 * rng.integers(0, 2, (draws, n), dtype=np.int8) - 1.0) @ values)
        return SignFlip((int((sums >= seen).sum()) + 1) / (draws + 1), 1 / (draws + 1))
    left, right = _signed_sums(values[: n // 2]), np.sort(_signed_sums(values[n // 2 :]))
    above = len(right) - np.searchsorted(right, seen - left, side="left")
    below = np.searchsorted(right, -seen - left, side="right")
    count = int(above.sum() + below.sum())
    return SignFlip(min(1.0, count / 2.0**n), min(1.0, 2.0 / 2.0**n))


def _signed_sums(values: Floats) -> Floats:
    """The sums of ``values`` under all 2^n choices of signs."""
    sums = np.zeros(1)
    for value in values:
        sums = np.concatenate([sums + value, sums - value])
    return sums


def outliers(values: npt.ArrayLike) -> list[int]:
    """Positions of outliers under normal noise, by Grubbs' test, repeated without those found."""
    values_ = np.asarray(values, dtype=np.float64)
    left, found = list(range(len(values_))), []
    while len(left) > 3:
        rest = [np.delete(values_[left], i) for i in range(len(left))]
        centre, spread = np.array([r.mean() for r in rest]), np.array([r.std(ddof=1) for r in rest])
        distance = np.abs(values_[left] - centre)
        with np.errstate(divide="ignore", invalid="ignore"):
            t = np.where(distance == 0.0, 0.0, distance / (spread * math.sqrt(1.0 + 1.0 / (len(left) - 1))))
        worst = int(np.argmax(t))
        if float(t_two_sided(t[worst], len(left) - 2)) * len(left) > OUTLIER_LEVEL:
            break
        found.append(left.pop(worst))
    return sorted(found)


def correlation_of(first: npt.ArrayLike, second: npt.ArrayLike) -> float | None:
    """Correlation over paired seeds, which is what pairing gains. None with fewer than 3 seeds or without variance."""
    a, b = (row - row.mean() for row in (np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)))
    size = math.sqrt(float(a @ a) * float(b @ b))
    return None if len(a) < 3 or size == 0.0 else float(a @ b) / size
