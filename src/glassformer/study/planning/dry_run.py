"""Planned studies -> their estimated cost, end and power, without training anything: ``compare --dry-run``.

Seconds come from a few timed steps on this machine; or, for the GPUs of a cluster (``--gpu``), from FLOPs and the share of the
peak rate that training reaches, as a range.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from matplotlib.figure import Figure

from glassformer.figures.intervals import cost_growth
from glassformer.foundation.machine import cores
from glassformer.foundation.progress import duration
from glassformer.recipe import Recipe
from glassformer.recipe_cost import Plan, plan_with, with_time
from glassformer.study.planning.plan import StudyPlan
from glassformer.study.planning.planned_study import PlannedStudy
from glassformer.study.planning.variant_data import matched, prepare_each
from glassformer.study.statistics.selection_variance import affects_cost
from glassformer.training.parallel.scale_estimate import LAUNCHED_IN, ScalePlan

START = (1.0, 15.0)
"""Seconds of a run on a GPU beside its steps: in a worker that has run others, and in a process of its own with nothing cached
(one H200, docs/measurements/bench-start-h200.json)."""


@dataclass(frozen=True)
class StudyEstimate:
    """The estimated cost of a study. ``seconds``: of one run of each variant, from a few timed steps.

    ``tuned_seconds``: by variant, of a run at each point of its grid.
    """

    plan: StudyPlan
    notes: tuple[str, ...]
    parameters: Mapping[str, int]
    seconds: Mapping[str, float]
    jobs: int
    tuned_seconds: Mapping[str, Sequence[float]] = field(default_factory=dict)
    span: tuple[float, float] = (1.0, 1.0)
    """At best and at worst, as shares of ``seconds``: of a calculated estimate."""

    @property
    def runs(self) -> int:
        """The maximum number of runs: all planned seeds, and tuning."""
        return len(self.parameters) * self.plan.all_looks[-1] + self.tuning_runs

    @property
    def tuning_runs(self) -> int:
        return len(self.plan.tuning_trials())

    @property
    def total(self) -> float:
        """Compute seconds of all runs, without start-up, checks and evaluations.

        Tuned variants are counted at their slowest setting, since the choice is not known yet.
        """
        return self.seconds_of(self.seconds)

    def seconds_of(self, variants: Collection[str], seeds: int | None = None) -> float:
        """Of some of the variants, with so many seeds (all of them unless given), and of tuning them."""
        tuned = [trial for trial in self.plan.tuning_trials() if trial.variant in variants]
        tuning = sum(self.tuned_seconds[trial.variant][trial.point] for trial in tuned)
        return sum(self.longest(name) for name in variants) * (seeds or self.plan.all_looks[-1]) + tuning

    def longest(self, variant: str) -> float:
        """Seconds of one of its runs, at its slowest setting."""
        return max(self.tuned_seconds.get(variant) or [self.seconds[variant]])

    def to_dict(self) -> dict[str, Any]:
        return {
            "variants": [
                {"variant": name, "parameters": self.parameters[name], "seconds": self.seconds[name]}
                for name in self.parameters
            ],
            "seeds": self.plan.all_looks[-1],
            "runs": self.runs,
            "tuning_runs": self.tuning_runs,
            "jobs": self.jobs,
            "seconds_of_computing": self.total,
            "seconds": self.total / self.jobs,
            "power": self.plan.power_sentence(),
            "notes": list(self.notes),
        }

    def __str__(self) -> str:
        rows = [
            f"{name}: {self.parameters[name]:,} parameters, {duration(self.seconds[name])} a run" for name in self.parameters
        ]
        first, last = self.plan.all_looks[0], self.plan.all_looks[-1]
        looks = f"{last} seeds" if first == last else f"{first} to {last} seeds"
        variants = "1 variant" if len(rows) == 1 else f"{len(rows)} variants"
        tuning = f" ({self.tuning_runs} of them to tune)" if self.tuning_runs else ""
        return "\n".join(
            [
                *rows,
                f"{variants} with {looks}: up to {self.runs} runs{tuning}, {duration(self.total)} of computing, "
                f"about {duration(self.total / self.jobs)} with {self.jobs} in parallel (measured steps, without evaluations).",
                self.plan.power_sentence(),
                *self.notes,
            ]
        )


@dataclass(frozen=True)
class ClusterEstimate:
    """All studies of a plan (its sizes, its bases) on GPUs: ``gpu`` is their kind, ``gpus_per_trial`` their number or share.

    Calculated: evaluations are left out.
    """

    studies: Mapping[str, StudyEstimate]
    gpu: str
    gpus_per_trial: float
    jobs: int | None
    begins: datetime

    def gpu_hours(self, seconds: float, span: tuple[float, float]) -> tuple[float, float]:
        """At best runs that share a GPU do not slow each other down; at worst they wait for each other."""
        low, high = (seconds * end / 3600.0 for end in span)
        return low * self.gpus_per_trial, high * max(1.0, self.gpus_per_trial)

    @property
    def total(self) -> tuple[float, float]:
        """GPU hours."""
        every = [self.gpu_hours(one.total, one.span) for one in self.studies.values()]
        return sum(low for low, _ in every), sum(high for _, high in every)

    def ends(self, at_once: int) -> tuple[float, datetime]:
        """Hours until the last run ends at worst, and when that is, if so many run at once from now on.

        Studies run one after another, and in each of them no run is split.
        """
        hours = 0.0
        for one in self.studies.values():
            longest = max(one.longest(name) for name in one.seconds)
            hours += max(one.total / min(at_once, one.runs), longest) * one.span[1] / 3600.0
        return hours, self.begins + timedelta(hours=hours)

    def growth(self) -> dict[str, list[tuple[str, float]]]:
        """GPU hours (at worst) by number of seeds, with each further size or base, and with each further change."""
        studies = list(self.studies.values())
        seeds = studies[0].plan.all_looks[-1]
        names = list(studies[0].seconds)

        def hours(some: Sequence[StudyEstimate], variants: Sequence[str], number: int | None = None) -> float:
            return sum(self.gpu_hours(one.seconds_of(variants, number), one.span)[1] for one in some)

        return {
            "seeds": [(str(n), hours(studies, names, n)) for n in sorted({1, 2, 4, 6, 8, 12, 16, seeds}) if n <= 2 * seeds],
            "sizes and texts": [(name, hours(studies[: at + 1], names)) for at, name in enumerate(self.studies)],
            "changes": [(name, hours(studies, names[: at + 1])) for at, name in enumerate(names)],
        }

    def figure(self) -> Figure:
        return cost_growth(self.growth(), unit=f"hours of one {self.gpu.upper()}, at worst")

    def to_dict(self) -> dict[str, Any]:
        (low, high), choices = self.total, {self.jobs} if self.jobs else {1, 8, 64}
        return {
            "gpu": self.gpu,
            "gpus_per_trial": self.gpus_per_trial,
            "gpu_hours": {"low": low, "high": high},
            "runs": sum(one.runs for one in self.studies.values()),
            "ends": {
                str(n): {"hours": self.ends(n)[0], "at": self.ends(n)[1].isoformat(timespec="minutes")} for n in sorted(choices)
            },
            "growth": self.growth(),
            "studies": {name: one.to_dict() for name, one in self.studies.items()},
        }

    def __str__(self) -> str:
        document, lines = self.to_dict(), []
        for name, one in self.studies.items():
            low, high = self.gpu_hours(one.total, one.span)
            what = f"{one.runs} runs of {max(one.parameters.values()):,} parameters"
            lines.append(f"{name}: {what}, {low:.2g} to {high:.2g} GPU hours")
        low, high = self.total
        lines.append(f"Together {document['runs']} runs: {low:.2g} to {high:.2g} hours of one {self.gpu.upper()}.")
        for n, one in document["ends"].items():
            lines.append(f"{n} at once: at most {duration(3600.0 * one['hours'])}, until {one['at'].replace('T', ' ')}.")
        lines.append("Calculated from FLOPs and the share of the peak rate that training reaches; without evaluations.")
        return "\n".join([*lines, next(iter(self.studies.values())).plan.power_sentence()])


def estimate_cluster(
    planned: Sequence[PlannedStudy], gpu: str, *, gpus_per_trial: float, processes: int = 1, jobs: int | None = None
) -> ClusterEstimate:
    """Estimates planned studies on GPUs of a kind, from their FLOPs; trains and times nothing."""
    root = os.path.commonpath([one.directory.root.parent for one in planned])
    studies = {}
    for one in planned:
        name = str(one.directory.root.relative_to(root))
        studies[name] = estimate_study(one, jobs, on=lambda plan: plan.on(processes, gpu=gpu)[0])
    return ClusterEstimate(studies, gpu, gpus_per_trial, jobs, datetime.now().astimezone())


def estimate_study(
    planned: PlannedStudy, jobs: int | None = None, on: Callable[[Plan], ScalePlan] | None = None
) -> StudyEstimate:
    """Estimates the planned study: prepares the data and times a few steps of every variant, or calculates them (``on``)."""
    plan, resolve = planned.plan, planned.resolve
    recipes = {name: Recipe.parse(resolve(plan.settings(name))) for name in plan.variants}
    prepared = prepare_each(recipes)
    notes, adapted = list(planned.notes), dict[str, dict[str, Any]]()
    for name in plan.variants:
        adapted[name], more = matched(plan, name, recipes, prepared)
        notes += more
    recipes = {name: Recipe.parse(resolve({**plan.settings(name), **adapted[name]})) for name in recipes}
    parameters, seconds, tuned = dict[str, int](), dict[str, float](), dict[str, list[float]]()
    spans: list[tuple[float, float]] = []
    for name, recipe in recipes.items():
        data = prepared[name]
        found = plan_with(recipe, data)
        if on is None:
            found = with_time(found, data)
            seconds[name] = found.seconds or 0.0
        else:
            low, high = on(found).seconds
            # a small model's step takes as long as its launch
            ends = low + START[0], max(high, found.steps * LAUNCHED_IN) + START[1]
            seconds[name] = 0.5 * sum(ends)
            spans.append((ends[0] / seconds[name], ends[1] / seconds[name]))
        shapes = recipe.model.shapes(data.tokenizer.size, outputs=recipe.objective.outputs(data))
        parameters[name] = sum(one.numel() for one in shapes.parameters())
        points = [
            plan_with(Recipe.parse(resolve({**plan.settings(name), **adapted[name], **one})), data)
            if affects_cost(one)
            else found
            for one in plan.tuning_points(name)
        ]
        tuned[name] = [seconds[name] * _work(point) / _work(found) for point in points]
    runs = max(len(parameters) * plan.all_looks[-1], len(plan.tuning_trials()))  # tuning and comparison never overlap
    span = (min(low for low, _ in spans), max(high for _, high in spans)) if spans else (1.0, 1.0)
    return StudyEstimate(plan, tuple(notes), parameters, seconds, min(jobs or cores(), runs), tuned, span)


def _work(plan: Plan) -> int:
    """FLOPs of the run."""
    return plan.steps * plan.cost.step_flops * plan.recipe.training.accumulate
