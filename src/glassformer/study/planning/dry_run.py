"""A study's plan -> its estimated cost and power, without training anything: ``compare --dry-run``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from glassformer.foundation.machine import cores
from glassformer.foundation.progress import duration
from glassformer.recipe import Recipe
from glassformer.recipe_cost import Plan, plan_with, with_time
from glassformer.study.planning.plan import StudyPlan
from glassformer.study.planning.planned_study import PlannedStudy
from glassformer.study.planning.variant_data import matched, prepare_each
from glassformer.study.statistics.selection_variance import affects_cost


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
        tuning = sum(self.tuned_seconds[trial.variant][trial.point] for trial in self.plan.tuning_trials())
        return sum(self._longest(name) for name in self.seconds) * self.plan.all_looks[-1] + tuning

    def _longest(self, variant: str) -> float:
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


def estimate_study(planned: PlannedStudy, jobs: int | None = None) -> StudyEstimate:
    """Estimates the planned study: prepares the data and times a few steps of every variant."""
    plan, resolve = planned.plan, planned.resolve
    recipes = {name: Recipe.parse(resolve(plan.settings(name))) for name in plan.variants}
    prepared = prepare_each(recipes)
    notes, adapted = list(planned.notes), dict[str, dict[str, Any]]()
    for name in plan.variants:
        adapted[name], more = matched(plan, name, recipes, prepared)
        notes += more
    recipes = {name: Recipe.parse(resolve({**plan.settings(name), **adapted[name]})) for name in recipes}
    parameters, seconds, tuned = dict[str, int](), dict[str, float](), dict[str, list[float]]()
    for name, recipe in recipes.items():
        data = prepared[name]
        found = with_time(plan_with(recipe, data), data)
        shapes = recipe.model.shapes(data.tokenizer.size, outputs=recipe.objective.outputs(data))
        parameters[name], seconds[name] = sum(one.numel() for one in shapes.parameters()), found.seconds or 0.0
        points = [
            plan_with(Recipe.parse(resolve({**plan.settings(name), **adapted[name], **one})), data)
            if affects_cost(one)
            else found
            for one in plan.tuning_points(name)
        ]
        tuned[name] = [seconds[name] * _work(point) / _work(found) for point in points]
    runs = max(len(parameters) * plan.all_looks[-1], len(plan.tuning_trials()))  # tuning and comparison never overlap
    return StudyEstimate(plan, tuple(notes), parameters, seconds, min(jobs or cores(), runs), tuned)


def _work(plan: Plan) -> int:
    """FLOPs of the run."""
    return plan.steps * plan.cost.step_flops * plan.recipe.training.accumulate
