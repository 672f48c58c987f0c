"""The runs of one change and of the baseline -> all statistics its verdict is based on.

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
from glassformer.foundation.errors import ConfigError
from glassformer.foundation.estimate import Estimate
from glassformer.foundation.metrics import Metric
from glassformer.study.history.ledger import Earlier
from glassformer.study.planning.power import SeedsNeeded
from glassformer.study.statistics.two_way import (
    LARGE_LOSS,
    TwoWayEffects,
    items_needed,
    two_way_effects,
    unpaired,
    without_each_seed,
)


class Problem(StrEnum):
    """Why a trial's result cannot be used."""

    LEAK = "leak"
    STEP_DIFFERS = "step differs"
    DIVERGED = "diverged"
    COLLAPSED = "collapsed"
    ONE_CLASS = "one class"
    NOT_ABOVE_TRIVIAL = "not above the trivial baseline"
    MISSING = "missing"


ROUNDING = 1e-9
EXACT_FLIPS = 40  # the 2^(40/2) sums over half the seeds fit into memory; with more seeds, sign flips are sampled
OUTLIER_LEVEL = 0.05  # under normal noise one study in twenty reports an outlier
UNSTABLE = (Problem.DIVERGED, Problem.COLLAPSED, Problem.ONE_CLASS, Problem.NOT_ABOVE_TRIVIAL)
"""Failures of training: a change that has them more often than the baseline is unstable."""


@dataclass(frozen=True)
class Trials:
    """The metric of one variant: ``values[seed, document]``, in the plan's order of seeds.

    A run without values is a row of NaN; pending seeds have no row. ``problems``: by position of the seed. ``leak``: a short
    description of the leak, if there is one. ``tuning_variance``: the variance that selecting its settings adds to its mean.
    ``earlier``: other studies of the same change.
    """

    name: str
    values: Floats
    problems: Mapping[int, Problem] = field(default_factory=dict)
    exploratory: bool = False
    leak: str = ""
    tuning_variance: float = 0.0
    earlier: Earlier = field(default_factory=Earlier)
    remarks: tuple[str, ...] = ()
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

    def unstable(self) -> int:
        """The number of runs that failed in training; a leak or a lost file is not counted."""
        return sum(what in UNSTABLE for what in self.problems.values())


@dataclass(frozen=True)
class Evidence:
    """The statistics of one change after ``seeds`` seeds. ``p`` values are uncorrected unless named ``..._corrected``."""

    metric: Metric
    margin: float
    same_margin: float
    """The margin of "same": smaller than ``margin`` if the same runs were judged with a smaller one before."""
    difference: Estimate
    """Cut at the metric's range, as the other intervals are."""
    half_width: float | None
    """Of the difference before it was cut: what is combined with other sets."""
    on_this_set: Estimate
    same_interval: Estimate
    any_look: Estimate | None
    base_value: float
    value: float
    p: float
    p_seed: float
    p_crossed: float
    p_same: float
    p_same_here: float
    p_beyond: float
    documents: int
    documents_needed: int
    document_share: float
    tuning_share: float
    seeds_better: int
    flips: SignFlip | None
    seeds_needed: SeedsNeeded
    seed_labels: tuple[int, ...]
    seed_differences: tuple[float, ...]
    far_off_seeds: tuple[int, ...]
    noise_floor: float | None
    correlation: float | None
    blocks: bool = False
    base_runs: int | None = None
    """Unpaired design: the number of baseline runs; None for pairs."""
    seeds_next: SeedsNeeded = field(default_factory=lambda: SeedsNeeded(None))
    """``seeds_needed`` in a further study on fresh seeds, with its correction for repeated studies."""
    documents_wanted: int | None = None
    """About how many documents are needed before more seeds help; None where there are enough."""
    p_corrected: float | None = None
    p_seed_corrected: float | None = None
    p_beyond_corrected: float | None = None

    @property
    def seeds(self) -> int:
        return len(self.seed_labels)

    def to_dict(self) -> dict[str, Any]:
        """The numbers as ``compare --json`` has them."""
        return {
            "difference": self.difference.to_dict(),
            "p": self.p,
            "p_corrected": self.p_corrected,
            "seeds": self.seeds,
            "seeds_needed": self.seeds_needed.to_dict(),
            "seeds_needed_in_a_further_study": self.seeds_next.to_dict(),
            "metric": self.metric.name,
            "unit": self.metric.unit,
            "margin": self.margin,
            "margin_of_same": self.same_margin,
            "baseline": self.base_value,
            "value": self.value,
            "on_this_set": self.on_this_set.to_dict(),
            "same_interval": self.same_interval.to_dict(),
            "any_look": None if self.any_look is None else self.any_look.to_dict(),
            "p_seed": self.p_seed,
            "p_crossed": self.p_crossed,
            "p_same": self.p_same,
            "p_same_on_documents_like_these": self.p_same_here,
            "p_beyond_margin": self.p_beyond,
            "p_beyond_margin_corrected": self.p_beyond_corrected,
            "documents": self.documents,
            "documents_are": "blocks of one text" if self.blocks else "documents",
            "documents_needed_for_same": self.documents_needed,
            "documents_wanted": self.documents_wanted,
            "document_share": self.document_share,
            "tuning_share": self.tuning_share,
            "design": "paired" if self.base_runs is None else "bank",
            "base_runs": self.seeds if self.base_runs is None else self.base_runs,
            "seeds_better": self.seeds_better,
            "sign_flip": None if self.flips is None else {"p": self.flips.p, "floor": self.flips.floor},
            "seed_differences": dict(zip(map(str, self.seed_labels), self.seed_differences)),
            "far_off_seeds": list(self.far_off_seeds),
            "noise_floor": self.noise_floor,
            "correlation": self.correlation,
            "failures_not_excluded": upper_bound(0, self.seeds),
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
    return Estimate(t.value, low, high, t.n)


@dataclass(frozen=True)
class Analysis:
    """The settings of the analysis that the plan fixed, and the weights of the evaluation set.

    ``blocks``: the documents are blocks of one text. ``by_pairs``: paired by seed; else against all runs of the baseline.
    """

    metric: Metric
    margin: float
    labels: tuple[int, ...]
    weights: Floats
    blocks: bool = False
    by_pairs: bool = True
    base_labels: tuple[int, ...] = ()
    """The baseline's seeds, where it has its own."""

    def seed_means(self, trials: Trials, seeds: int | None = None) -> Floats:
        used = self.weights > 0.0
        return np.asarray(trials.values[:seeds, used] @ (self.weights[used] / self.weights.sum()))

    def effects(self, base: Trials, change: Trials, seeds: int) -> TwoWayEffects:
        _same_set(base, change)
        return self._effects(base, change, np.arange(seeds))

    def without_each_seed(self, base: Trials, change: Trials, seeds: int) -> TwoWayEffects:
        return without_each_seed(seeds, lambda rows: self._effects(base, change, rows))

    def _effects(self, base: Trials, change: Trials, rows: npt.NDArray[np.int_]) -> TwoWayEffects:
        if self.by_pairs:
            effects = two_way_effects(change.values[rows] - base.values[rows], self.weights, blocks=self.blocks)
        else:
            effects = unpaired(change.values[rows], base.values, self.weights, blocks=self.blocks)
        return effects.with_tuning_variance(base.tuning_variance + change.tuning_variance)

    def p(self, effects: TwoWayEffects) -> Floats:
        """p of "no difference"; for answers at least the smallest p that a sign test of so few items can give."""
        return np.maximum(effects.p, effects.smallest_p) if self.metric.answers else effects.p

    def p_beyond(self, effects: TwoWayEffects) -> Floats:
        p = effects.p_beyond(self.margin)
        return np.maximum(p, effects.smallest_p) if self.metric.answers else p

    def same_margin(self, change: Trials) -> float:
        """The margin of "same": the smallest one that the same runs were ever judged with."""
        before = change.earlier.margin
        return self.margin if before is None else min(self.margin, before)

    def p_same(self, effects: TwoWayEffects, change: Trials) -> Floats:
        return effects.p_same(self.same_margin(change), answers=self.metric.answers)


def _same_set(base: Trials, change: Trials) -> None:
    if base.values.shape[1:] != change.values.shape[1:]:
        raise ConfigError(
            f"{change.name} was evaluated on {change.values.shape[1]} documents and {base.name} on {base.values.shape[1]}; "
            "every variant must be evaluated on the same whole set.",
            reason="other-documents",
        )


def gather(
    analysis: Analysis,
    base: Trials,
    change: Trials,
    effects: TwoWayEffects,
    *,
    same_level: float,
    any_look_level: float | None,
    needed: SeedsNeeded,
) -> Evidence:
    """All statistics of one change. ``any_look_level`` is the nominal p of one change at a planned look."""
    n, metric, same_margin = effects.seeds, analysis.metric, analysis.same_margin(change)
    means = tuple(float(mean) for mean in effects.seed_means)
    base_means, own_means = analysis.seed_means(base, n if analysis.by_pairs else None), analysis.seed_means(change, n)
    worst = max(float(effects.largest), LARGE_LOSS)
    difference, range_ = interval(effects, 0.95, metric), metric.difference_bounds
    any_look = None if any_look_level is None else interval(effects, 1.0 - any_look_level, metric)
    return Evidence(
        metric=metric,
        margin=analysis.margin,
        same_margin=same_margin,
        difference=difference.within(range_),
        half_width=difference.half_width,
        on_this_set=effects.estimate(on_this_set=True).within(range_),
        same_interval=interval(effects, 1.0 - 2.0 * same_level, metric).within(range_),
        any_look=None if any_look is None else any_look.within(range_),
        base_value=float(base_means.mean()),
        value=float(own_means.mean()),
        p=float(analysis.p(effects)),
        p_seed=float(effects.p_seed),
        p_crossed=float(effects.p_crossed),
        p_same=float(analysis.p_same(effects, change)),
        p_same_here=float(effects.p_same_here(same_margin)),
        p_beyond=float(analysis.p_beyond(effects)),
        documents=effects.documents,
        documents_needed=items_needed(same_margin / worst, same_level),
        document_share=float(effects.document_share),
        tuning_share=float(effects.tuning_share),
        seeds_better=sum(metric.better(mean) for mean in means),
        flips=sign_flip(means) if analysis.by_pairs else None,
        seeds_needed=needed,
        seed_labels=analysis.labels[:n],
        seed_differences=means,
        far_off_seeds=tuple(analysis.labels[position] for position in outliers(means)),
        noise_floor=float(base_means.std(ddof=1)) if len(base_means) > 1 else None,
        correlation=correlation_of(base_means, own_means) if analysis.by_pairs else None,
        blocks=analysis.blocks,
        base_runs=None if analysis.by_pairs else base.seeds,
    )


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
