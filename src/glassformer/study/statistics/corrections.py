"""Corrections of p: for several looks (interim analyses) by alpha spending, for several changes by Holm's method.

The third correction, for earlier studies of the same change, is in ``history.ledger``. Alpha spending: alpha (n/N)^2 for
better or worse, alpha n/N for "same". Boundaries are simulated on t processes; those of the default looks are tabulated here
(``python -m glassformer.study.statistics.corrections`` recomputes them), others are simulated once per process with fixed
random numbers. A study without looks has one look, and needs no simulation.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from glassformer.foundation.distributions import Floats, t_two_sided, t_upper
from glassformer.foundation.errors import ConfigError

ALPHA = 0.05
USUAL_LOOKS = (6, 8, 12, 16)
FEWEST_LEVELS = 5  # boundaries for 1 to 5 changes left; more when more are planned
PATHS = 2_000_000
FEWEST_BEYOND = 20  # simulated studies beyond a boundary: with fewer its estimate is too noisy

# Two-sided nominal p at the usual looks for alpha = .05, by the number of changes left. Standard error at most .00002.
USUAL_THRESHOLDS: dict[int, tuple[float, ...]] = {
    1: (0.007031, 0.007796, 0.019339, 0.033545),
    2: (0.003516, 0.003717, 0.009286, 0.015825),
    3: (0.002344, 0.002412, 0.006063, 0.010237),
    4: (0.001758, 0.001780, 0.004489, 0.007530),
    5: (0.001406, 0.001406, 0.003554, 0.005930),
}
# One-sided nominal p of "same" at the usual looks, for alpha = .05.
USUAL_SAME: tuple[float, ...] = (0.01875, 0.013544, 0.019792, 0.024892)


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
class Looks:
    """The planned looks (rising numbers of seeds; the last is ``max_seeds``) and their p thresholds."""

    seeds: tuple[int, ...]
    alpha: float = ALPHA
    changes: int = 1

    def __post_init__(self) -> None:
        if not self.seeds or any(b <= a for a, b in zip((1, *self.seeds), self.seeds)):
            raise ConfigError(
                f"looks={list(self.seeds)} must be rising numbers of seeds, 2 or more, for example [6, 8, 12, 16].",
                reason="looks-not-rising",
            )
        if not 0.0 < self.alpha < 0.5:
            raise ConfigError(f"alpha={self.alpha} must lie between 0 and 0.5; 0.05 is usual.", reason="alpha-out-of-range")
        if self.alpha < self._least_alpha():
            raise ConfigError(
                f"alpha={self.alpha} is too small for looks={list(self.seeds)}, whose boundaries are simulated; "
                f"use {self._least_alpha():.1g} or more, or one look.",
                reason="alpha-too-small-for-looks",
            )

    def _least_alpha(self) -> float:
        """The smallest alpha for which every look has enough simulated studies beyond its boundary."""
        shares = [(n / self.seeds[-1]) ** 2 for n in self.seeds]
        spent = min((b - a for a, b in pairwise(shares)), default=math.inf)
        return FEWEST_BEYOND * max(self.changes, FEWEST_LEVELS) / (PATHS * spent)

    def threshold(self, look: int, left: int) -> float:
        """The p at or below which a change is significant at this look, with ``left`` planned changes not significant yet."""
        first = self.alpha / left * (self.seeds[0] / self.seeds[-1]) ** 2
        return first if look == 0 else self._thresholds[left - 1][look]

    def same_threshold(self, look: int) -> float:
        """The one-sided p at or below which a change is the same within the margin at this look."""
        if self.seeds == USUAL_LOOKS and self.alpha == ALPHA:
            return USUAL_SAME[look]
        return boundaries(self.seeds, self.alpha, sides=1)[look]

    def level(self, p: npt.ArrayLike, look: int) -> Floats:
        """p adjusted for the looks: the overall alpha (for one change) at which ``p`` would just be significant here.

        Exact at alpha, alpha/2, alpha/3 ... (so the decision is exact), interpolated between, extrapolated beyond.
        """
        p_ = np.asarray(p, dtype=np.float64)
        if look == 0:
            return np.asarray(np.minimum(p_ / (self.seeds[0] / self.seeds[-1]) ** 2, 1.0))
        levels = np.log([self.alpha / left for left in range(len(self._thresholds), 0, -1)])
        nominal = np.log([row[look] for row in reversed(self._thresholds)])
        with np.errstate(divide="ignore"):
            log_p = np.log(p_)
        inside = np.interp(log_p, nominal, levels)
        beyond = np.where(log_p < nominal[0], log_p - nominal[0], np.maximum(log_p - nominal[-1], 0.0))
        return np.asarray(np.minimum(np.exp(inside + beyond), 1.0))

    @cached_property
    def _thresholds(self) -> list[tuple[float, ...]]:
        rows = range(1, max(self.changes, FEWEST_LEVELS) + 1)
        usual = self.seeds == USUAL_LOOKS and self.alpha == ALPHA
        return [
            USUAL_THRESHOLDS[left] if usual and left in USUAL_THRESHOLDS else boundaries(self.seeds, self.alpha / left, sides=2)
            for left in rows
        ]


@lru_cache(maxsize=256)
def boundaries(looks: tuple[int, ...], alpha: float, *, sides: int, paths: int = PATHS, stream: int = 0) -> tuple[float, ...]:
    """Nominal p per look, two-sided with quadratic or one-sided with linear alpha spending, from ``paths`` simulations."""
    share = [(n / looks[-1]) ** sides for n in looks]
    nominal = [alpha * share[0]]  # the first look needs no simulation
    if len(looks) == 1:
        return tuple(nominal)
    alive = np.ones(paths, dtype=bool)
    for look, (n, t) in enumerate(zip(looks, t_process(looks, paths, stream))):
        reach = np.abs(t) if sides == 2 else t
        if look > 0:
            spend = round(alpha * (share[look] - share[look - 1]) * paths)
            going = np.sort(np.partition(reach[alive], -spend - 1)[-spend - 1 :])
            nominal.append(float(t_two_sided(0.5 * (going[0] + going[1]), n - 1)) * sides / 2)
        alive &= reach < float(t_upper(nominal[-1] / sides, n - 1))
    return tuple(nominal)


@lru_cache(maxsize=2)
def t_process(looks: tuple[int, ...], paths: int, stream: int = 0) -> tuple[Floats, ...]:
    """The t statistic at each look of ``paths`` studies under the null hypothesis.

    New seeds are drawn as their sum and their sum of squares, the sufficient statistics of t.
    """
    rng = np.random.default_rng([stream, *looks])
    total, squares, before, process = np.zeros(paths), np.zeros(paths), 0, []
    for n in looks:
        new = n - before
        added = np.sqrt(new) * rng.standard_normal(paths)
        squares += added**2 / new
        if new > 1:
            squares += rng.chisquare(new - 1, paths)
        total += added
        before = n
        process.append(total / np.sqrt(n * (squares - total**2 / n) / (n - 1)))
    return tuple(process)


def _usual_boundaries(streams: int = 40) -> None:
    """Prints the tables above: means over independent simulations, with standard errors."""
    rows = [(left, 2) for left in range(1, FEWEST_LEVELS + 1)] + [(1, 1)]
    found = np.array(
        [[boundaries(USUAL_LOOKS, ALPHA / left, sides=sides, stream=s) for left, sides in rows] for s in range(streams)]
    )
    for (left, sides), mean, error in zip(rows, found.mean(0), found.std(0, ddof=1) / np.sqrt(streams)):
        print(f"{'found' if sides == 2 else 'same'}, {left} left: {mean.round(6)} +- {error.round(6)}")


if __name__ == "__main__":
    _usual_boundaries()
