"""Settings of tuning grids that make another model than their variant's -> a check of each, before it is trained.

A variant's own check is not about them. One that fails cannot be chosen, so it is not tried, and the variant goes on with the
others. Makes the tasks and holds what was found; runs nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, final

from glassformer.study.inference.tuning import makes_another_model
from glassformer.study.planning.plan import StudyPlan, Trial
from glassformer.study.planning.variants import Facts
from glassformer.study.running.executors.base import Task


@final
class TunedSettings:
    """What is known of such settings, by variant and number of the point."""

    def __init__(self) -> None:
        self._places: dict[str, Trial] = {}
        self._found: dict[tuple[str, int], Facts] = {}

    def tasks(
        self, plan: StudyPlan, trials: Iterable[Trial], recipe_of: Callable[[Trial], Any], everywhere: Mapping[str, Any]
    ) -> list[Task]:
        """One inspection for each such setting among the trials that are still to be trained."""
        for trial in trials:
            if makes_another_model(plan.tuning_points(trial.variant)[trial.point]):
                self._places.setdefault(f"{trial.variant} (setting {trial.point + 1} of its grid)", trial)
        return [Task("inspect", label, {**everywhere, "recipe": recipe_of(trial)}) for label, trial in self._places.items()]

    def note(self, label: str, answer: Mapping[str, Any], plan: StudyPlan, variants: Mapping[str, Facts]) -> list[str]:
        """Keeps what an inspection found; a sentence where the setting is not tried."""
        trial = self._places[label]
        facts = self._found[trial.variant, trial.point] = variants[trial.variant].inspected(answer)
        if not self.leaks(trial, variants):
            return []
        point = plan.tuning_points(trial.variant)[trial.point]
        said = ", ".join(f"{key}={value}" for key, value in point.items())
        return [f"{trial.variant} with {said} is not tried: {facts.leak}"]

    def leaks(self, trial: Trial, variants: Mapping[str, Facts]) -> bool:
        """Whether the setting of a tuning trial fails its check though the variant passes."""
        return variants[trial.variant].leak is None and self.facts(trial, variants).leak is not None

    def facts(self, trial: Trial, variants: Mapping[str, Facts]) -> Facts:
        """What is known of the model that a trial trains: of its setting, or of its variant."""
        of_setting = self._found.get((trial.variant, trial.point)) if trial.area == "tuning" else None
        return of_setting or variants[trial.variant]

    def memory(self) -> list[int]:
        """Bytes that a step of each plans for."""
        return [facts.memory_bytes for facts in self._found.values()]
