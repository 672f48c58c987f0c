"""The runs of one change and of the baseline -> all statistics its verdict is based on.

A failed or missing run is a problem attached to its seed; its row is never dropped. Decides nothing. Imports no torch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import numpy as np
import numpy.typing as npt

from glassformer.foundation.distributions import Floats
from glassformer.foundation.errors import ConfigError
from glassformer.foundation.estimate import Estimate
from glassformer.foundation.metrics import Metric
from glassformer.study.history.ledger import Earlier
from glassformer.study.inference.binomial_bounds import failure_rate_bound, hit_rate_bound, items_needed
from glassformer.study.inference.corrections import SignFlip, correlation_of, outliers, sign_flip
from glassformer.study.inference.two_way import BADLY_HURT, TwoWayEffects, two_way_effects, unpaired, without_each_seed
from glassformer.study.planning.power import SeedsNeeded


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
            "failures_not_excluded": failure_rate_bound(0, self.seeds),
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
    reach = hit_rate_bound(abs(mean) * items, items, 0.5 + confidence / 2)
    not_won = hit_rate_bound((1.0 - min(abs(mean), 1.0)) * items, items, 0.5 + confidence / 2)
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
        kept = self.weights > 0.0
        return np.asarray(trials.values[:seeds, kept] @ (self.weights[kept] / self.weights.sum()))

    def effects(self, base: Trials, change: Trials, seeds: int) -> TwoWayEffects:
        _same_set(base, change)
        return self._effects(base, change, np.arange(seeds))

    def without_each_seed(self, base: Trials, change: Trials, seeds: int) -> TwoWayEffects:
        return without_each_seed(seeds, lambda kept: self._effects(base, change, kept))

    def _effects(self, base: Trials, change: Trials, kept: npt.NDArray[np.int_]) -> TwoWayEffects:
        if self.by_pairs:
            effects = two_way_effects(change.values[kept] - base.values[kept], self.weights, blocks=self.blocks)
        else:
            effects = unpaired(change.values[kept], base.values, self.weights, blocks=self.blocks)
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
            "every variant must be evaluated on the same whole set."
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
    worst = max(float(effects.largest), BADLY_HURT)
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
