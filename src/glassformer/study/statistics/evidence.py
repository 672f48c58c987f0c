"""The runs of one change and of the baseline -> the numbers its verdict is based on, and what they cannot exclude.

A failed or missing run is a problem attached to its seed; its row is never dropped. Decides nothing. Imports no torch.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import numpy as np
import numpy.typing as npt

from glassformer.foundation.distributions import Floats, beta_quantile, t_two_sided
from glassformer.foundation.estimate import Estimate
from glassformer.foundation.metrics import Metric
from glassformer.study.history.ledger import Earlier
from glassformer.study.planning.conditions import Condition
from glassformer.study.planning.power import SeedsNeeded
from glassformer.study.statistics.two_way import TwoWayEffects


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
    unjudged: bool = False
    """``leak`` says which laws could not be judged; none is known to be broken."""
    leaks_once_trained: bool = False
    """The untrained model passed its check; the leak was found in a trained one."""
    leaks_in_step: bool = False
    """The model passed its check; the leak was found in its compiled or captured step, before training."""

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
    """The statistics of one change. ``p`` values are uncorrected unless named ``..._corrected``; intervals are corrected."""

    metric: Metric
    margin: float
    difference: Estimate
    """Its interval has the level that p was compared with, so it is corrected for changes, looks and studies, too."""
    on_this_set: Estimate
    same_interval: Estimate
    base_value: float
    value: float
    p: float
    p_seed: float
    p_crossed: float
    p_same: float
    p_beyond: float
    p_corrected: float
    p_seed_corrected: float
    p_beyond_corrected: float
    documents: int
    unit: str
    """What the documents are: documents, blocks or groups."""
    documents_wanted: int | None
    """About how many documents are needed before more seeds help; None where there are enough."""
    document_share: float
    tuning_share: float
    long_and_short: tuple[float, float] | None
    """The mean difference of long and of short documents, where it depends on length, and lengths are unequal."""
    seeds_needed: SeedsNeeded
    seed_labels: tuple[int, ...]
    seed_differences: tuple[float, ...]
    far_off_seeds: tuple[int, ...]
    earlier_seeds: int = 0
    base_runs: int | None = None
    """Unpaired design: the number of baseline runs; None for pairs."""

    @property
    def seeds(self) -> int:
        return len(self.seed_labels)

    @property
    def seeds_better(self) -> int:
        return sum(self.metric.better(mean) for mean in self.seed_differences)

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
        return None if self.metric.bounds is not None and hurt > 1.0 else (one_in, hurt)

    def to_dict(self) -> dict[str, Any]:
        """The numbers as ``compare --json`` has them."""
        missed = self.missed_documents(max(abs(self.difference.value or 0.0), self.margin))
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
            "p_seed": self.p_seed,
            "p_crossed": self.p_crossed,
            "p_same": self.p_same,
            "p_beyond_margin": self.p_beyond,
            "p_beyond_margin_corrected": self.p_beyond_corrected,
            "documents": self.documents,
            "documents_are": self.unit,
            "documents_wanted": self.documents_wanted,
            "document_share": self.document_share,
            "tuning_share": self.tuning_share,
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


def interval(effects: TwoWayEffects, confidence: float, metric: Metric) -> Estimate:
    """The confidence interval. For right-or-wrong answers it is at least as wide as the exact binomial bounds of the items.

    Away from zero: the bound on items won (or lost). Towards zero: the bound on items not won, which counts twice (they may be
    lost) where every observed item was won.
    """
    t = effects.estimate(confidence)
    if not metric.answers or t.low is None or t.high is None:
        return t
    mean, items = float(effects.mean), effects.effective_documents
    reach = upper_bound(abs(mean) * items, items, 0.5 + confidence / 2)
    not_won = upper_bound((1.0 - min(abs(mean), 1.0)) * items, items, 0.5 + confidence / 2)
    near = 1.0 - (2.0 if abs(mean) > 1.0 - ROUNDING else 1.0) * not_won
    low, high = (min(t.low, -reach) if mean <= 0.0 else t.low), (max(t.high, reach) if mean >= 0.0 else t.high)
    low, high = (min(low, near) if mean > 0.0 else low), (max(high, -near) if mean < 0.0 else high)
    return Estimate(t.value, low, high, t.n).within(metric.difference_bounds)


def upper_bound(hits: float, items: float, confidence: float = 0.95) -> float:
    """The exact one-sided upper bound of the rate after ``hits`` of ``items`` (Clopper-Pearson); hits may be fractions.

    Exact because counts are small, where the normal approximation fails.
    """
    return 1.0 if hits >= items else beta_quantile(confidence, hits + 1.0, items - hits)


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
