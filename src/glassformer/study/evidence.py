"""The runs of one change beside those of the baseline -> every number its verdict rests on.

A failed or missing run is a problem attached to its seed, never a row left out. Gathers; judges nothing. Imports no torch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import numpy as np

from glassformer.foundation.distributions import Floats
from glassformer.foundation.errors import ConfigError
from glassformer.foundation.estimate import Estimate
from glassformer.foundation.metrics import Metric
from glassformer.study.power import SeedsNeeded
from glassformer.study.statistics import (
    Crossed,
    SignFlip,
    correlation_of,
    crossed,
    failures_not_excluded,
    far_off,
    sign_flip,
)


class Problem(StrEnum):
    """Why a trial's number cannot be used."""

    LEAK = "leak"
    DIVERGED = "diverged"
    COLLAPSED = "collapsed"
    NOT_ABOVE_TRIVIAL = "not above the trivial baseline"
    MISSING = "missing"


@dataclass(frozen=True)
class Trials:
    """The metric of one variant: ``values[seed, document]``, in the plan's order of seeds.

    A run that gave no values is a row of NaN; seeds whose runs are still to come are not there yet. ``problems`` says, by
    position of the seed, what is wrong with a run.
    """

    name: str
    values: Floats
    problems: Mapping[int, Problem] = field(default_factory=dict)
    exploratory: bool = False

    @property
    def seeds(self) -> int:
        return int(self.values.shape[0])

    def all_problems(self) -> dict[int, Problem]:
        """The problems given, and as missing every row that is not all numbers."""
        rows = {int(row): Problem.MISSING for row in np.flatnonzero(~np.isfinite(self.values).all(axis=1))}
        return dict(sorted((rows | dict(self.problems)).items()))


@dataclass(frozen=True)
class Evidence:
    """What is known of one change after ``seeds`` seeds. ``p`` values are as computed; ``p_corrected`` is over all changes."""

    metric: Metric
    margin: float
    difference: Estimate
    on_this_set: Estimate
    same_interval: Estimate
    any_look: Estimate | None
    p: float
    p_seed: float
    p_crossed: float
    p_same: float
    documents: int
    document_share: float
    seeds_better: int
    flips: SignFlip
    seeds_needed: SeedsNeeded
    seed_labels: tuple[int, ...]
    seed_differences: tuple[float, ...]
    far_off_seeds: tuple[int, ...]
    noise_floor: float | None
    correlation: float | None
    p_corrected: float | None = None
    p_seed_corrected: float | None = None

    @property
    def seeds(self) -> int:
        return len(self.seed_labels)

    def plain(self) -> dict[str, Any]:
        """The numbers for JSON; the keys of the contract first."""
        return {
            "difference": self.difference.plain(),
            "p": self.p,
            "p_corrected": self.p_corrected,
            "seeds": self.seeds,
            "seeds_needed": self.seeds_needed.plain(),
            "metric": self.metric.name,
            "unit": self.metric.unit,
            "margin": self.margin,
            "on_this_set": self.on_this_set.plain(),
            "same_interval": self.same_interval.plain(),
            "any_look": None if self.any_look is None else self.any_look.plain(),
            "p_seed": self.p_seed,
            "p_crossed": self.p_crossed,
            "p_same": self.p_same,
            "documents": self.documents,
            "document_share": self.document_share,
            "seeds_better": self.seeds_better,
            "sign_flip": {"p": self.flips.p, "floor": self.flips.floor},
            "seed_differences": dict(zip(map(str, self.seed_labels), self.seed_differences)),
            "far_off_seeds": list(self.far_off_seeds),
            "noise_floor": self.noise_floor,
            "correlation": self.correlation,
            "failures_not_excluded": failures_not_excluded(0, self.seeds),
        }


def paired(base: Trials, change: Trials, seeds: int) -> Floats:
    """variant minus baseline, for the first ``seeds`` seeds."""
    if base.values.shape[1:] != change.values.shape[1:]:
        raise ConfigError(
            f"{change.name} was evaluated on {change.values.shape[1]} documents and {base.name} on {base.values.shape[1]}; "
            "every variant must be evaluated on the same whole set."
        )
    return np.asarray(change.values[:seeds] - base.values[:seeds])


def nothing_differs(found: Crossed, metric: Metric) -> bool:
    """True when not one item was answered differently by any seed: then t has no variance to work with."""
    return metric.answers and float(found.from_documents) == 0.0 and float(found.from_seeds) == 0.0 and float(found.mean) == 0.0


def p_same(found: Crossed, margin: float, metric: Metric) -> float:
    """p of "the difference reaches the margin"; if no answer differs, the chance of that with a share ``margin`` differing."""
    if nothing_differs(found, metric):
        return float((1.0 - margin) ** found.documents)
    return float(found.p_same(margin))


def interval(found: Crossed, confidence: float, metric: Metric) -> Estimate:
    """The wider interval; if no answer differs, what ``documents`` equal answers in a row leave possible."""
    if nothing_differs(found, metric):
        bound = failures_not_excluded(0, found.documents, 0.5 + confidence / 2)
        return Estimate(0.0, -bound, bound, found.seeds)
    return found.estimate(confidence)


@dataclass(frozen=True)
class Yardstick:
    """What the plan fixed before the first run, and the set everything was evaluated on."""

    metric: Metric
    margin: float
    labels: tuple[int, ...]
    weights: Floats

    def seed_means(self, trials: Trials, seeds: int) -> Floats:
        kept = self.weights > 0.0
        return np.asarray(trials.values[:seeds, kept] @ (self.weights[kept] / self.weights.sum()))

    def analyse(self, base: Trials, change: Trials, seeds: int) -> Crossed:
        return crossed(paired(base, change, seeds), self.weights)


def gather(
    yardstick: Yardstick,
    base: Trials,
    change: Trials,
    found: Crossed,
    *,
    same_level: float,
    any_look_level: float | None,
    needed: SeedsNeeded,
) -> Evidence:
    """All numbers of one change from its analysis. ``any_look_level`` is the nominal p of one change at a planned look."""
    n, metric = found.seeds, yardstick.metric
    means = tuple(float(mean) for mean in found.seed_means)
    base_means = yardstick.seed_means(base, n)
    return Evidence(
        metric=metric,
        margin=yardstick.margin,
        difference=interval(found, 0.95, metric),
        on_this_set=found.estimate(on_this_set=True),
        same_interval=interval(found, 1.0 - 2.0 * same_level, metric),
        any_look=None if any_look_level is None else interval(found, 1.0 - any_look_level, metric),
        p=float(found.p),
        p_seed=float(found.p_seed),
        p_crossed=float(found.p_crossed),
        p_same=p_same(found, yardstick.margin, metric),
        documents=found.documents,
        document_share=float(found.document_share),
        seeds_better=sum(metric.better(mean) for mean in means),
        flips=sign_flip(means),
        seeds_needed=needed,
        seed_labels=yardstick.labels[:n],
        seed_differences=means,
        far_off_seeds=tuple(yardstick.labels[position] for position in far_off(means)),
        noise_floor=float(base_means.std(ddof=1)) if n > 1 else None,
        correlation=correlation_of(base_means, yardstick.seed_means(change, n)),
    )
