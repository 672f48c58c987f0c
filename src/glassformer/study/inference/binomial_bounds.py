"""Exact binomial bounds (Clopper-Pearson): failure rates of runs, rare events among few documents.

Exact because counts are small, where the normal approximation fails. Imports no torch and no scipy.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from glassformer.foundation.distributions import Floats, beta_quantile, incomplete_beta


def at_most_probability(seen: npt.ArrayLike, share: npt.ArrayLike, items: float) -> Floats:
    """P(at most a fraction ``seen`` of ``items`` are hits) when each is one with probability ``share``.

    I_{1-share}(items - hits, hits + 1): the binomial CDF, continued to fractional hits.
    """
    seen_, share_ = np.broadcast_arrays(np.asarray(seen, dtype=np.float64), np.asarray(share, dtype=np.float64))
    hits = items * np.clip(seen_, 0.0, 1.0)
    inside = (hits < items) & (share_ < 1.0)
    p = incomplete_beta(np.where(inside, items - hits, 1.0), hits + 1.0, 1.0 - np.where(inside, share_, 0.5))
    return np.where(inside, p, np.where(share_ >= 1.0, (hits >= items).astype(np.float64), 1.0))


def items_needed(share: float, level: float) -> int:
    """How many items without a hit reject, at ``level``, a hit probability of ``share``."""
    return math.ceil(math.log(level) / math.log1p(-min(share, 0.999)))


@lru_cache(maxsize=256)
def failure_rate_bound(failed: int, runs: int, confidence: float = 0.95) -> float:
    """The exact one-sided upper bound of the failure rate after ``failed`` of ``runs`` (Clopper-Pearson)."""
    return 1.0 if failed >= runs else beta_quantile(confidence, failed + 1, runs - failed)


@lru_cache(maxsize=256)
def hit_rate_bound(hits: float, items: float, confidence: float) -> float:
    """The same for fractional hits."""
    return 1.0 if hits >= items else beta_quantile(confidence, hits + 1.0, items - hits)


@dataclass(frozen=True)
class Rate:
    """``failed`` of ``runs``, with the exact two-sided 95 % interval (Clopper-Pearson)."""

    failed: int
    runs: int

    @property
    def low(self) -> float:
        return 0.0 if self.failed == 0 else 1.0 - failure_rate_bound(self.runs - self.failed, self.runs, 0.975)

    @property
    def high(self) -> float:
        return failure_rate_bound(self.failed, self.runs, 0.975)

    def __str__(self) -> str:
        return f"{self.failed} of {self.runs} ({100 * self.low:.0f} to {100 * self.high:.0f} %)"

    def to_dict(self) -> dict[str, float]:
        return {"failed": self.failed, "runs": self.runs, "low": self.low, "high": self.high}
