"""p values over changes, tests that need no normal noise, runs that lie far off: what stands beside the analysis of a study.

Decides nothing; imports no torch and no scipy.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from glassformer.foundation.distributions import Floats, t_two_sided

EXACT_FLIPS = 40  # 2^(40/2) sums of half the seeds fit into memory; beyond, sign flips are drawn
FAR_OFF_LEVEL = 0.05  # a run is named far off in one of twenty studies whose noise is normal


def holm(p: npt.ArrayLike) -> Floats:
    """Holm's corrected p values over the last axis: the family-wise level at which each would just be found."""
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
    """The exact test that needs no normal noise, and the smallest p it could give with this many seeds."""

    p: float
    floor: float


def sign_flip(seed_means: npt.ArrayLike) -> SignFlip:
    """Two-sided p: the share of the 2^n ways to flip the seeds' signs that give a mean at least as far from zero."""
    values = np.asarray(seed_means, dtype=np.float64)
    n = len(values)
    seen = abs(values.sum()) - 1e-12 * np.abs(values).sum()  # a flip that gives the same sum must count, rounding or not
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


def far_off(values: npt.ArrayLike) -> list[int]:
    """Positions of runs that lie too far from the others for normal noise: Grubbs' test, again without the one found."""
    values_ = np.asarray(values, dtype=np.float64)
    left, found = list(range(len(values_))), []
    while len(left) > 3:
        rest = [np.delete(values_[left], i) for i in range(len(left))]
        centre, spread = np.array([r.mean() for r in rest]), np.array([r.std(ddof=1) for r in rest])
        distance = np.abs(values_[left] - centre)
        with np.errstate(divide="ignore", invalid="ignore"):
            t = np.where(distance == 0.0, 0.0, distance / (spread * math.sqrt(1.0 + 1.0 / (len(left) - 1))))
        worst = int(np.argmax(t))
        if float(t_two_sided(t[worst], len(left) - 2)) * len(left) > FAR_OFF_LEVEL:
            break
        found.append(left.pop(worst))
    return sorted(found)


def correlation_of(first: npt.ArrayLike, second: npt.ArrayLike) -> float | None:
    """How far two rows of paired seeds go together: what pairing gains. None with fewer than 3 seeds or without spread."""
    a, b = (row - row.mean() for row in (np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)))
    size = math.sqrt(float(a @ a) * float(b @ b))
    return None if len(a) < 3 or size == 0.0 else float(a @ b) / size
