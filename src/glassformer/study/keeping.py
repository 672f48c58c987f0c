"""The trials of one study and the store -> those it need not train, those it leaves for others, the noise kept runs show.

Says what it took, and from where. Decides nothing about variants; imports no torch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, final

import numpy as np

from glassformer.foundation.errors import RunError
from glassformer.foundation.plugins import loaded_plugins
from glassformer.foundation.progress import Watcher
from glassformer.runs.directory import RunDirectory
from glassformer.study.bank import MOST_KEPT, foreseen, noise_of
from glassformer.study.directory import StudyDirectory
from glassformer.study.evidence import Problem
from glassformer.study.plan import BASE, StudyPlan, Trial
from glassformer.study.results import TrialResult, metric_of, read_trial
from glassformer.study.store import Origin, TrialStore, machine_of
from glassformer.study.variants import Facts


@final
class Keeper:
    """Between one study and the store; without a store it takes and keeps nothing."""

    def __init__(
        self,
        store: TrialStore | None,
        plan: StudyPlan,
        directory: StudyDirectory,
        facts: Mapping[str, Facts],
        recipe_of: Callable[[Trial], Mapping[str, Any]],
        watch: Watcher,
    ) -> None:
        self.store, self.plan, self.directory, self.facts = store, plan, directory, facts
        self.recipe_of, self.watch = recipe_of, watch

    def origin(self, variant: str, recipe: Mapping[str, Any]) -> Origin | None:
        """What makes the trials of a variant; None where that is not known well enough to keep or take one."""
        facts = self.facts[variant]
        return Origin.of(recipe, data=facts.data, plugins=loaded_plugins(), machine=facts.machine)

    def seeds(self, variant: str, recipe: Mapping[str, Any]) -> list[int]:
        """The seeds of which a trial of this recipe is kept."""
        origin = self.origin(variant, recipe)
        return [] if self.store is None or origin is None else self.store.seeds(origin)

    def take(self, trials: Sequence[Trial]) -> list[Trial]:
        """Those of ``trials`` that an earlier study kept, now in this one's folder."""
        if self.store is None:
            return []
        taken = []
        for trial in trials:
            origin = self.origin(trial.variant, self.recipe_of(trial))
            try:
                if origin is not None and self.store.take(origin, trial.seed, self.directory.trial(trial)):
                    taken.append(trial)
            except RunError as error:
                self.watch.say(f"{error} {trial.label} is trained.")
        if taken:
            self.watch.say(
                f"{len(taken)} of {len(trials)} trials are taken from earlier studies: the same recipe, seed, data, code and "
                f"machine, checked by their sums (kept in {self.store.root}; `glassformer runs --kept` lists them)."
            )
        return taken

    def keep(self, trial: Trial, result: TrialResult) -> None:
        """Puts a trial that is done where the next study finds it, if its own record says it was made as foreseen."""
        if self.store is None or result.problem is Problem.LEAK:
            return
        origin, folder = self.origin(trial.variant, self.recipe_of(trial)), self.directory.trial(trial)
        made = machine_of(RunDirectory(folder).read_environment())
        if origin is not None and made == self.facts[trial.variant].machine:
            self.store.keep(origin, trial.seed, folder)

    def foreseen(self, plan: StudyPlan, recipe: Mapping[str, Any]) -> str | None:
        """What kept runs of the baseline say about the power of this study, in its own unit."""
        origin = self.origin(BASE, recipe)
        if self.store is None or origin is None:
            return None
        values = []
        for seed in self.store.seeds(origin)[:MOST_KEPT]:
            try:
                units = read_trial(self.store.place(origin, seed), Trial(BASE, seed, {}, ""), plan.judged, plan.split).units
            except RunError:
                continue
            if units is not None and plan.judged.name in units:
                values.append(metric_of(units, plan.judged))
        noise = noise_of(np.array(values))
        return None if noise is None else foreseen(plan, noise, len(values))
