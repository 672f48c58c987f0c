"""The trials of one study and the store -> those it need not train, those it leaves for others, the noise kept runs show.

Says what it took, and from where. What a check found in one trained model holds for every seed of it: nothing of one that leaks
is kept, and the seed that a study checks after training is taken only where some seed of it was checked so. Decides nothing
about variants.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, final

import numpy as np

from glassformer.foundation.errors import RunError
from glassformer.foundation.plugins import loaded_plugins, plugin_sums
from glassformer.foundation.progress import Watcher
from glassformer.foundation.registry import unrecorded_parts
from glassformer.recipe import Recipe
from glassformer.runs.directory import RunDirectory
from glassformer.study.bank import bank_seeds, foreseen, noise_of
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
        self._told: set[str] = set()

    def origin(self, variant: str, recipe: Mapping[str, Any]) -> Origin | None:
        """What makes the trials of a variant; None where that is not known well enough to keep or take one."""
        facts, parsed = self.facts[variant], Recipe.parse(dict(recipe))
        unknown = unrecorded_parts(parsed)
        if unknown:
            self._say_once(
                f"{', '.join(unknown)}: a class of this notebook or program, whose code no sum tells of, so trials of "
                f"{variant} are neither kept nor taken from earlier studies. In a file given as a plugin it has one."
            )
            return None
        weights = parsed.model.checked_with()  # of a pretrained encoder: its folder may hold others than it did
        machine = {**facts.machine, "pretrained": dict(weights)} if facts.machine and weights else facts.machine
        return Origin.of(recipe, data=facts.data, plugins=loaded_plugins(), machine=machine)

    def seeds(self, variant: str, recipe: Mapping[str, Any]) -> list[int]:
        """The seeds of which a trial of this recipe is kept."""
        origin = self.origin(variant, recipe)
        return [] if self.store is None or origin is None else self.store.seeds(origin)

    def bad(self, seeds: Sequence[int], recipe: Mapping[str, Any]) -> list[int]:
        """Of these seeds of the baseline those whose kept run cannot be used."""
        origin = self.origin(BASE, recipe)
        if origin is None:
            return []
        return [seed for seed in bank_seeds(seeds) if self._kept(self.plan, origin, seed).problem is not None]

    def _kept(self, plan: StudyPlan, origin: Origin, seed: int) -> TrialResult:
        """What a kept run of the baseline gave; one that cannot be read counts as still to come."""
        assert self.store is not None
        trial = Trial(BASE, seed, {}, "")
        try:
            return read_trial(self.store.place(origin, seed), trial, plan.judged, plan.split)
        except RunError:
            return TrialResult(trial, "pending")

    def take(self, trials: Sequence[Trial]) -> list[Trial]:
        """Those of ``trials`` that an earlier study kept, now in this one's folder."""
        if self.store is None:
            return []
        taken = []
        for trial in trials:
            origin = self.origin(trial.variant, self.recipe_of(trial))
            if origin is not None and self.plan.checks_trained(trial) and not self.store.checked(origin):
                continue
            try:
                if origin is not None and self.store.take(origin, trial.seed, self.directory.trial(trial)):
                    self.directory.mark_taken(trial)
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
        if self.store is None or result.problem is Problem.LEAK or self.facts[trial.variant].leak is not None:
            return
        origin, folder = self.origin(trial.variant, self.recipe_of(trial)), self.directory.trial(trial)
        made = RunDirectory(folder).read_environment()
        same_code = plugin_sums(made.get("plugins", ())) == plugin_sums(loaded_plugins())  # no plugin was edited meanwhile
        if origin is not None and same_code and machine_of(made) == self.facts[trial.variant].machine:
            checked = self.plan.checks_trained(trial) and result.status == "finished"
            self.store.keep(origin, trial.seed, folder, checked=checked)

    def drop(self, trials: Sequence[Trial]) -> None:
        """Takes what is kept of a variant out of the store, tuning too: a trained model of it was found to leak."""
        for trial in trials:
            origin = self.origin(trial.variant, self.recipe_of(trial))
            if self.store is not None and origin is not None:
                self.store.drop(origin)

    def holds(self, trial: Trial) -> bool:
        """Whether a trial would be taken rather than trained."""
        origin = self.origin(trial.variant, self.recipe_of(trial)) if self.store is not None else None
        return self.store is not None and origin is not None and self.store.holds(origin, trial.seed)

    def _say_once(self, sentence: str) -> None:
        if sentence not in self._told:
            self._told.add(sentence)
            self.watch.say(sentence)

    def foreseen(self, plan: StudyPlan, recipe: Mapping[str, Any]) -> str | None:
        """What kept runs of the baseline say about the power of this study, in its own unit."""
        origin = self.origin(BASE, recipe)
        if self.store is None or origin is None:
            return None
        every = [self._kept(plan, origin, seed).units for seed in bank_seeds(self.store.seeds(origin))]
        values = [metric_of(units, plan.judged) for units in every if units is not None and plan.judged.name in units]
        noise = noise_of(np.array(values))
        return None if noise is None else foreseen(plan, noise, len(values))
