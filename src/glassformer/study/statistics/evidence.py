"""The runs of one change and of the baseline -> the numbers its verdict is based on, and what they cannot exclude.

A failed or missing run is a problem attached to its seed; its row is never dropped. Decides nothing. Imports no torch.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from glassformer.foundation.distributions import Floats, t_two_sided
from glassformer.foundation.estimate import Estimate
from glassformer.foundation.metrics import Metric
from glassformer.study.history.ledger import Earlier
from glassformer.study.planning.conditions import Condition, LeakKind
from glassformer.study.planning.power import SeedsNeeded, documents_wanted, seeds_needed
from glassformer.study.statistics.two_way import TwoWayEffects, upper_bound

Word = Literal["better", "worse", "same", "not decided", "invalid"]


class Problem(StrEnum):
    """Why a trial's result cannot be used."""

    LEAK = "leak"
    STEP_DIFFERS = "step differs"
    DIVERGED = "diverged"
    COLLAPSED = "collapsed"
    ONE_CLASS = "one class"
    NOT_ABOVE_TRIVIAL = "not above the trivial baseline"
    MISSING = "missing"
    OTHER_UNITS = "other documents"
    UNEQUAL = "unequal"


ROUNDING = 1e-9
OUTLIER_LEVEL = 0.05  # under normal noise one study in twenty reports an outlier
RULE_OF_THREE = 3.0  # -ln .05: what none of m documents shows may still be true of 3/m of all (95 % bound)
UNSTABLE = (Problem.DIVERGED, Problem.COLLAPSED, Problem.ONE_CLASS, Problem.NOT_ABOVE_TRIVIAL)
"""Failures of training: a change that has them more often than the baseline is unstable."""


@dataclass(frozen=True)
class Trials:
    """The metric of one variant: ``values[seed, document]``, in the plan's order of seeds.

    A run without values is a row of NaN; pending seeds have no row. ``problems``: by position of the seed. ``leak``: a short
    description of the leak, if there is one. ``tuning_variance``: the variance that selecting its settings adds to its mean.
    ``earlier``: other studies of the same question.
    """

    name: str
    values: Floats
    problems: Mapping[int, Problem] = field(default_factory=dict)
    exploratory: bool = False
    leak: str = ""
    tuning_variance: float = 0.0
    earlier: Earlier = field(default_factory=Earlier)
    remarks: tuple[str, ...] = ()
    conditions: tuple[Condition, ...] = ()
    """What else differs from the baseline."""
    unequal: str = ""
    """What differs though the plan demands that it is equal."""
    leak_kind: LeakKind = ""
    """*unjudged*: ``leak`` says which laws could not be judged; none is known to be broken."""

    @property
    def seeds(self) -> int:
        return int(self.values.shape[0])

    def all_problems(self, seeds: int | None = None) -> dict[int, Problem]:
        """``problems``, and MISSING for every row with NaN; limited to the first ``seeds`` rows if given."""
        rows = {int(row): Problem.MISSING for row in np.flatnonzero(~np.isfinite(self.values).all(axis=1))}
        every = dict(sorted((rows | dict(self.problems)).items()))
        return {at: what for at, what in every.items() if seeds is None or at < seeds}

    def unstable(self) -> list[int]:
        """The positions of runs that failed in training; a leak or a lost file is not counted."""
        return [at for at, what in self.problems.items() if what in UNSTABLE]


@dataclass(frozen=True)
class Evidence:
    """The numbers behind one word.

    ``level``: the nominal p that decides this change, corrected for changes, looks and studies; its interval has the confidence
    1 - ``level``, so a word and its interval never disagree. ``same_level``: likewise, of "same".
    """

    metric: Metric
    margin: float
    effects: TwoWayEffects
    level: float
    same_level: float
    unit: str
    """What the documents are: documents, blocks or groups."""
    base_value: float
    seed_labels: tuple[int, ...]
    look: int = 0
    word: Word = "not decided"
    p_corrected: float = 1.0
    beyond_margin: bool = False
    """Whether the difference is significantly larger than the margin, corrected over all changes."""
    earlier_seeds: int = 0
    base_runs: int | None = None
    """Unpaired design: the number of baseline runs; None for pairs."""
    sought: tuple[float, int, float] | None = None
    """The difference that more seeds or documents should find, among how many changes, at which alpha."""

    @cached_property
    def difference(self) -> Estimate:
        return self.effects.estimate(1.0 - self.level)

    @property
    def p(self) -> float:
        """Uncorrected."""
        return self.effects.p

    @property
    def on_this_set(self) -> Estimate:
        return self.effects.estimate(1.0 - self.level, on_this_set=True)

    @property
    def same_interval(self) -> Estimate:
        return self.effects.estimate(1.0 - 2.0 * self.same_level)

    @property
    def value(self) -> float:
        return self.base_value + self.effects.mean

    @property
    def documents(self) -> int:
        return self.effects.documents

    @property
    def seeds(self) -> int:
        return len(self.seed_labels)

    @property
    def seed_differences(self) -> tuple[float, ...]:
        return tuple(float(mean) for mean in self.effects.seed_means)

    @property
    def seeds_better(self) -> int:
        return sum(self.metric.better(mean) for mean in self.seed_differences)

    @cached_property
    def seeds_needed(self) -> SeedsNeeded:
        return SeedsNeeded(None) if self.sought is None else seeds_needed(self.effects, *self.sought)

    @property
    def documents_wanted(self) -> int | None:
        """About how many documents are needed before more seeds help; None where there are enough."""
        return None if self.sought is None else documents_wanted(self.effects, *self.sought)

    @cached_property
    def long_and_short(self) -> tuple[float, float] | None:
        """The mean difference of long and of short documents, where it depends on length, and lengths are unequal."""
        return None if self.unit == "blocks" else long_and_short(self.effects)

    @cached_property
    def far_off_seeds(self) -> tuple[int, ...]:
        return tuple(self.seed_labels[position] for position in outliers(self.seed_differences))

    @property
    def bad_runs_missed(self) -> float:
        """The largest share of bad runs that so many good ones leave possible (exact 95 % bound)."""
        return upper_bound(0, self.seeds)

    def missed_documents(self, size: float) -> tuple[int, float] | None:
        """Rule of three (Hanley and Lippman-Hand 1983): 1 in ``y`` documents that change by ``x`` may have been missed.

        ``x`` is what would move the mean by ``size``. None where an answer cannot change by as much.
        """
        one_in = max(1, math.floor(self.documents / RULE_OF_THREE))
        hurt = size * one_in
        return None if self.metric.answers and hurt > 1.0 else (one_in, hurt)

    def to_dict(self) -> dict[str, Any]:
        """The numbers as ``compare --json`` has them."""
        missed = self.missed_documents(max(abs(self.effects.mean), self.margin))
        return {
            "difference": self.difference.to_dict(),
            "p": self.p,
            "p_corrected": self.p_corrected,
            "seeds": self.seeds,
            "seeds_needed": self.seeds_needed.to_dict(),
            "metric": self.metric.name,
            "unit": self.metric.unit,
            "margin": self.margin,
            "baseline": self.base_value,
            "value": self.value,
            "on_this_set": self.on_this_set.to_dict(),
            "same_interval": self.same_interval.to_dict(),
            "p_same": self.effects.p_same(self.margin),
            "beyond_margin": self.beyond_margin,
            "documents": self.documents,
            "documents_are": self.unit,
            "documents_wanted": self.documents_wanted,
            "document_share": self.effects.document_share,
            "tuning_share": self.effects.tuning_share,
            "long_and_short_documents": self.long_and_short,
            "design": "paired" if self.base_runs is None else "bank",
            "base_runs": self.seeds if self.base_runs is None else self.base_runs,
            "seeds_better": self.seeds_better,
            "seeds_of_earlier_studies": self.earlier_seeds,
            "seed_differences": dict(zip(map(str, self.seed_labels), self.seed_differences)),
            "far_off_seeds": list(self.far_off_seeds),
            "bad_runs_not_excluded": self.bad_runs_missed,
            "documents_not_excluded": None if missed is None else {"one_in": missed[0], "by": missed[1]},
        }


@dataclass(frozen=True)
class Rate:
    """``failed`` of ``runs``, with the exact two-sided 95 % interval (Clopper-Pearson)."""

    failed: int
    runs: int

    @property
    def low(self) -> float:
        return 0.0 if self.failed == 0 else 1.0 - upper_bound(self.runs - self.failed, self.runs, 0.975)

    @property
    def high(self) -> float:
        return upper_bound(self.failed, self.runs, 0.975)

    def __str__(self) -> str:
        return f"{self.failed} of {self.runs} runs failed ({100 * self.low:.0f} to {100 * self.high:.0f} %)"

    def to_dict(self) -> dict[str, float]:
        return {"failed": self.failed, "runs": self.runs, "low": self.low, "high": self.high}


def outliers(values: npt.ArrayLike) -> list[int]:
    """Positions of outliers under normal noise, by Grubbs' test, repeated without those found."""
    values_ = np.asarray(values, dtype=np.float64)
    left, found = list(range(len(values_))), []
    while len(left) > 3:
        n, rest = len(left) - 1, values_[left]
        centre = (rest.sum() - rest) / n  # of the others, for each
        spread = np.sqrt(np.maximum(((rest**2).sum() - rest**2 - n * centre**2) / (n - 1), 0.0))
        distance = np.abs(rest - centre)
        with np.errstate(divide="ignore", invalid="ignore"):
            t = np.where(distance == 0.0, 0.0, distance / (spread * math.sqrt(1.0 + 1.0 / n)))
        worst = int(np.argmax(t))
        if float(t_two_sided(t[worst], n - 1)) * len(left) > OUTLIER_LEVEL:
            break
        found.append(left.pop(worst))
    return sorted(found)


def long_and_short(effects: TwoWayEffects) -> tuple[float, float] | None:
    """The mean difference of long and of short documents (half of the tokens each), where verdicts are unreliable.

    That is where their lengths are unequal (they count like at most four fifths as many) and the difference depends on length
    (correlation with its logarithm, p at most .05): there 8 to 13 % of simulated studies were wrong.
    """
    w, d, m = effects.weights, effects.document_means, effects.documents
    if effects.effective_documents > 0.8 * m or m < 4:
        return None
    x = np.log(w) - np.log(w).mean()
    y = d - d.mean()
    size = math.sqrt(float(x @ x) * float(y @ y))
    r = float(x @ y) / size if size > 0.0 else 0.0
    if abs(r) < 1.0 - ROUNDING and float(t_two_sided(r * math.sqrt((m - 2) / (1.0 - r * r)), m - 2)) > OUTLIER_LEVEL:
        return None
    order = np.argsort(w)
    short = order[: max(1, int((np.cumsum(w[order]) <= 0.5).sum()))]
    long = np.setdiff1d(order, short)
    means = float(np.average(d[long], weights=w[long])), float(np.average(d[short], weights=w[short]))
    return means if abs(means[0] - means[1]) > abs(float(effects.mean)) else None  # a large effect that varies a little
