"""Corrections of p: over the looks and the studies of one question by alpha spending, over changes by Holm's method.

All studies of a question (baseline, change, text, metric) are one group-sequential test (Lan and DeMets 1983): the first may
spend ``FIRST_STUDY`` of alpha, all later ones together the rest. Inside a study with looks at n of N seeds, (n/N)^2 of its
share is spent for better or worse, n/N for "same". Boundaries are simulated on t processes; those of the default looks are
tabulated (a slow test makes them again), others are simulated once per process with fixed random numbers. A first study without
looks needs no simulation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from glassformer.foundation.distributions import Floats, t_two_sided, t_upper
from glassformer.foundation.errors import ConfigError

ALPHA = 0.05
FIRST_STUDY = 0.8
"""The fraction of alpha that the first study of a question spends: .04 of .05."""
EXPLORATORY = 1.0 - FIRST_STUDY
"""The fraction of alpha for the changes that were added to a study after it began."""
USUAL_LOOKS = (6, 8, 12, 16)
PATHS = 2_000_000
FEWEST_BEYOND = 20  # simulated studies beyond a boundary: with fewer its estimate is too noisy

# Two-sided nominal p at the usual looks of a first study for alpha = .05, by the number of changes left. Standard
# error at most .00003.
USUAL_THRESHOLDS: dict[int, tuple[float, ...]] = {
    1: (0.005625, 0.006128, 0.015250, 0.026268),
    2: (0.002813, 0.002924, 0.007331, 0.012414),
    3: (0.001875, 0.001912, 0.004795, 0.008047),
    4: (0.001406, 0.001409, 0.003551, 0.005914),
    5: (0.001125, 0.001114, 0.002814, 0.004666),
}
# One-sided nominal p of "same" at the usual looks of a first study, for alpha = .05.
USUAL_SAME: tuple[float, ...] = (0.015, 0.01051, 0.015354, 0.019144)


def study_share(number: int) -> float:
    """The fraction of alpha that the k-th study of a question may spend: .8, .1, .033, .017, ...; all of them sum to 1."""
    return FIRST_STUDY if number < 2 else (1.0 - FIRST_STUDY) / (number * (number - 1))


def holm(p: Sequence[float]) -> list[float]:
    """Holm's (1979) corrected p values: the family-wise level at which each would just be significant."""
    ratios, _ = over_boundaries(p, lambda at, left: 1.0 / left, len(p))
    return [min(1.0, ratio) for ratio in ratios]


def over_boundaries(p: Sequence[float], boundary: Callable[[int, int], float], count: int) -> tuple[list[float], list[int]]:
    """Holm's method: each p over its boundary (significant where at most 1), and its rank.

    The smallest against ``boundary(which, count)``, the next against that for one hypothesis fewer, and so on; none is more
    significant than one before it.
    """
    order = sorted(range(len(p)), key=lambda at: p[at] / boundary(at, count))
    ratios, ranks, worst = [0.0] * len(p), [0] * len(p), 0.0
    for rank, at in enumerate(order):
        worst = max(worst, p[at] / boundary(at, count - rank))
        ratios[at], ranks[at] = worst, rank
    return ratios, ranks


@dataclass(frozen=True)
class Looks:
    """The analyses of one question: the planned looks of this study (rising numbers of its own seeds) after earlier ones.

    ``share``: the fraction of alpha that this study may spend. ``pooled``: seeds of earlier studies that are analysed with its
    own. ``before``: the analyses of those studies: seeds in all, and the fraction of alpha each spent.
    """

    seeds: tuple[int, ...]
    alpha: float = ALPHA
    share: float = FIRST_STUDY
    pooled: int = 0
    before: tuple[tuple[int, float], ...] = ()

    def __post_init__(self) -> None:
        if not self.seeds or any(b <= a for a, b in zip((1, *self.seeds), self.seeds)):
            raise ConfigError(
                f"looks={list(self.seeds)} must be rising numbers of seeds, 2 or more, for example [6, 8, 12, 16].",
                reason="looks-not-rising",
            )
        if not 0.0 < self.alpha < 0.5:
            raise ConfigError(f"alpha={self.alpha} must lie between 0 and 0.5; 0.05 is usual.", reason="alpha-out-of-range")

    def _analyses(self, sides: int) -> tuple[tuple[int, ...], tuple[float, ...]]:
        """All analyses in order: seeds in all, and the fraction of alpha spent by each.

        A look at no more seeds than an earlier analysis had is that analysis made again: it spends nothing.
        """
        if not self.before and not self.pooled and len(self.seeds) == 1:
            return self.seeds, (self.share,)
        last = self.before[-1][0] if self.before else 0
        new = [n for n in self.seeds if self.pooled + n > last]
        shares = [self.share * (n / self.seeds[-1]) ** sides for n in new]
        spent = [share - less for share, less in zip(shares, [0.0, *shares])]
        return (*(n for n, _ in self.before), *(self.pooled + n for n in new)), (*(s for _, s in self.before), *spent)

    def _at(self, look: int) -> int:
        """The place of a look among all analyses."""
        n = self.pooled + self.seeds[look]
        return next(at for at, seeds in enumerate(self._analyses(2)[0]) if seeds >= n)

    def spent(self, looks: int) -> list[tuple[int, float]]:
        """The analyses that the first ``looks`` looks of this study added: own seeds, and the fraction of alpha spent."""
        places = {self._at(look): self.seeds[look] for look in range(looks)}
        return [(n, self._analyses(2)[1][at]) for at, n in places.items() if at >= len(self.before)]

    def threshold(self, look: int, left: int) -> float:
        """The p at or below which a change is significant at this look, with ``left`` planned changes not significant yet."""
        if self._usual and left in USUAL_THRESHOLDS:
            return USUAL_THRESHOLDS[left][look]
        return boundaries(*self._analyses(2), self.alpha / left, sides=2)[self._at(look)]

    def same_threshold(self, look: int) -> float:
        """The one-sided p at or below which a change is the same within the margin at this look."""
        if self._usual:
            return USUAL_SAME[look]
        return boundaries(*self._analyses(1), self.alpha, sides=1)[self._at(look)]

    @property
    def _usual(self) -> bool:
        """Whether the tables have the boundaries."""
        plain = not self.before and not self.pooled and self.share == FIRST_STUDY
        return plain and self.seeds == USUAL_LOOKS and self.alpha == ALPHA


@lru_cache(maxsize=1024)
def boundaries(
    looks: tuple[int, ...], spent: tuple[float, ...], alpha: float, *, sides: int, paths: int = PATHS, stream: int = 0
) -> tuple[float, ...]:
    """Nominal p per analysis, one- or two-sided, that spends the fractions ``spent`` of alpha, from ``paths`` simulations."""
    nominal = [alpha * spent[0]]  # the first analysis needs no simulation
    if len(looks) == 1:
        return tuple(nominal)
    alive = np.ones(paths, dtype=bool)
    for look, (n, t) in enumerate(zip(looks, t_process(looks, paths, stream))):
        reach = np.abs(t) if sides == 2 else t
        if look > 0:
            spend = round(alpha * spent[look] * paths)
            going = np.sort(np.partition(reach[alive], -spend - 1)[-spend - 1 :])[:2]
            by_paths = float(t_two_sided(going.mean(), n - 1)) * sides / 2
            # its own share alone is always permitted, and exact; the simulation only adds what the analyses have in common
            nominal.append(max(alpha * spent[look], by_paths if spend >= FEWEST_BEYOND else 0.0))
        alive &= reach < float(t_upper(nominal[-1] / sides, n - 1))
    return tuple(nominal)


@lru_cache(maxsize=1)
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
