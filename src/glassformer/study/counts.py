"""Counts -> what they leave possible: rates of failed runs, of rare events that few documents may miss.

Exact where counts are small, which is where the normal approximation is wrong. Imports no torch and no scipy.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from glassformer.foundation.distributions import Floats, beta_quantile, incomplete_beta


def rare(seen: npt.ArrayLike, share: npt.ArrayLike, items: float) -> Floats:
    """P(no more than a part ``seen`` of ``items`` is hit) when each is hit with probability ``share``; parts may be fractions.

    I_{1-share}(items - hits, hits + 1): for whole hits the binomial distribution.
    """
    seen_, share_ = np.broadcast_arrays(np.asarray(seen, dtype=np.float64), np.asarray(share, dtype=np.float64))
    hits = items * np.clip(seen_, 0.0, 1.0)
    inside = (hits < items) & (share_ < 1.0)
    p = incomplete_beta(np.where(inside, items - hits, 1.0), hits + 1.0, 1.0 - np.where(inside, share_, 0.5))
    return np.where(inside, p, np.where(share_ >= 1.0, (hits >= items).astype(np.float64), 1.0))


def items_needed(share: float, level: float) -> int:
    """How many items without a hit exclude, at ``level``, that each is hit with probability ``share``."""
    return math.ceil(math.log(level) / math.log1p(-min(share, 0.999)))


@lru_cache(maxsize=256)
def failures_not_excluded(failed: int, runs: int, confidence: float = 0.95) -> float:
    """The largest failure rate that ``failed`` of ``runs`` leaves possible: the exact one-sided bound (Clopper-Pearson)."""
    return 1.0 if failed >= runs else beta_quantile(confidence, failed + 1, runs - failed)


@lru_cache(maxsize=256)
def hits_not_excluded(hits: float, items: float, confidence: float) -> float:
    """The same for parts of hits: the largest share that would show as few in one of 1 / (1 - confidence) sets."""
    return 1.0 if hits >= items else beta_quantile(confidence, hits + 1.0, items - hits)


@dataclass(frozen=True)
class Rate:
    """``failed`` of ``runs``, with the exact two-sided 95 % interval (Clopper-Pearson)."""

    failed: int
    runs: int

    @property
    def low(self) -> float:
        return 0.0 if self.failed == 0 else 1.0 - failures_not_excluded(self.runs - self.failed, self.runs, 0.975)

    @property
    def high(self) -> float:
        return failures_not_excluded(self.failed, self.runs, 0.975)

    def __str__(self) -> str:
        return f"{self.failed} of {self.runs} ({100 * self.low:.0f} to {100 * self.high:.0f} %)"

    def to_dict(self) -> dict[str, float]:
        return {"failed": self.failed, "runs": self.runs, "low": self.low, "high": self.high}
