"""One study's access to the trial store: reuse stored trials, save new ones, estimate noise from stored baseline runs.

A check of one trained model holds for all its seeds: trials of a leaking variant are never stored, and the seed that a study
checks after training is reused only if some seed of it passed that check.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, final

import numpy as np

from glassformer.foundation.errors import RunError
from glassformer.foundation.plugins import loaded_plugins, plugin_checksums
from glassformer.foundation.progress import Watcher
from glassformer.foundation.registry import unrecorded_parts
from glassformer.recipe import Recipe
from glassformer.runs.directory import RunDirectory
from glassformer.study.directory import StudyDirectory
from glassformer.study.history.baseline_bank import bank_seeds, expected_power, run_noise
from glassformer.study.inference.evidence import Problem
from glassformer.study.planning.plan import BASE, StudyPlan, Trial
from glassformer.study.planning.variants import Facts
from glassformer.study.running.trial_results import TrialResult, metric_of, read_trial
from glassformer.study.running.trial_store import Origin, TrialStore, machine_of


@final
class StudyStore:
    """The trial store as one study uses it; with ``store`` None it neither reuses nor saves anything."""

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
        self._said: set[str] = set()

    def origin(self, variant: str, recipe: Mapping[str, Any]) -> Origin | None:
        """The cache key of a variant's trials; None where code outside a plugin makes it unknowable."""
        facts, parsed = self.facts[variant], Recipe.parse(dict(recipe))
        unknown = unrecorded_parts(parsed)
        if unknown:
            self._say_once(
                f"{', '.join(unknown)}: a class of this notebook or program, whose code has no checksum, so trials of "
                f"{variant} are neither stored nor reused. Code in a plugin file has one."
            )
            return None
        weights = parsed.model.check_cache_inputs()  # of a pretrained encoder: its folder may hold others than it did
        machine = {**facts.machine, "pretrained": dict(weights)} if facts.machine and weights else facts.machine
        return Origin.of(recipe, data=facts.data, plugins=loaded_plugins(), machine=machine)

    def seeds(self, variant: str, recipe: Mapping[str, Any]) -> list[int]:
        """The seeds with a stored trial of this recipe."""
        origin = self.origin(variant, recipe)
        return [] if self.store is None or origin is None else self.store.seeds(origin)

    def unusable(self, seeds: Sequence[int], recipe: Mapping[str, Any]) -> list[int]:
        """Of these seeds of the baseline those whose stored run cannot be used."""
        origin = self.origin(BASE, recipe)
        if origin is None:
            return []
        return [seed for seed in bank_seeds(seeds) if self._kept(self.plan, origin, seed).problem is not None]

    def _kept(self, plan: StudyPlan, origin: Origin, seed: int) -> TrialResult:
        """The result of a stored baseline run; one that cannot be read counts as pending."""
        assert self.store is not None
        trial = Trial(BASE, seed, {}, "")
        try:
            return read_trial(self.store.path(origin, seed), trial, plan.judged, plan.split)
        except RunError:
            return TrialResult(trial, "pending")

    def reuse(self, trials: Sequence[Trial]) -> list[Trial]:
        """Copies stored trials into this study's folder; returns those of ``trials`` that were found."""
        if self.store is None:
            return []
        reused = []
        for trial in trials:
            origin = self.origin(trial.variant, self.recipe_of(trial))
            if origin is not None and self.plan.checks_trained(trial) and not self.store.checked(origin):
                continue
            try:
                if origin is not None and self.store.copy_to(origin, trial.seed, self.directory.trial(trial)):
                    self.directory.mark_reused(trial)
                    reused.append(trial)
            except RunError as error:
                self.watch.say(f"{error} {trial.label} is trained.")
        if reused:
            self.watch.say(
                f"{len(reused)} of {len(trials)} trials are reused from earlier studies: the same recipe, seed, data, code and "
                f"machine, verified by checksum (kept in {self.store.root}; `glassformer runs --kept` lists them)."
            )
        return reused

    def save(self, trial: Trial, result: TrialResult) -> None:
        """Saves a finished trial for later studies, if its record confirms the plugins and the machine."""
        if self.store is None or result.problem is Problem.LEAK or self.facts[trial.variant].leak is not None:
            return
        origin, folder = self.origin(trial.variant, self.recipe_of(trial)), self.directory.trial(trial)
        environment = RunDirectory(folder).read_environment()
        same_plugins = plugin_checksums(environment.get("plugins", ())) == plugin_checksums(loaded_plugins())
        if origin is not None and same_plugins and machine_of(environment) == self.facts[trial.variant].machine:
            checked = self.plan.checks_trained(trial) and result.status == "finished"
            self.store.save(origin, trial.seed, folder, checked=checked)

    def evict(self, trials: Sequence[Trial]) -> None:
        """Removes a variant's trials from the store, tuning included, because a trained model of it leaks."""
        for trial in trials:
            origin = self.origin(trial.variant, self.recipe_of(trial))
            if self.store is not None and origin is not None:
                self.store.evict(origin)

    def contains(self, trial: Trial) -> bool:
        """Whether a trial would be reused rather than trained."""
        origin = self.origin(trial.variant, self.recipe_of(trial)) if self.store is not None else None
        return self.store is not None and origin is not None and self.store.contains(origin, trial.seed)

    def _say_once(self, sentence: str) -> None:
        if sentence not in self._said:
            self._said.add(sentence)
            self.watch.say(sentence)

    def expected_power(self, plan: StudyPlan, recipe: Mapping[str, Any]) -> str | None:
        """The power of this study in the metric's unit, from the noise of stored baseline runs; None without enough."""
        origin = self.origin(BASE, recipe)
        if self.store is None or origin is None:
            return None
        every = [self._kept(plan, origin, seed).units for seed in bank_seeds(self.store.seeds(origin))]
        values = [metric_of(units, plan.judged) for units in every if units is not None and plan.judged.name in units]
        noise = run_noise(np.array(values))
        return None if noise is None else expected_power(plan, noise, len(values))
