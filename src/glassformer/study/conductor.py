"""Runs a planned study from wherever it stands to its verdicts: variants first, then tuning, then look after look.

What is done is read from the folder each time, never remembered, so a study that was killed goes on where it was. Holds
the order of things; executors do the work, and the statistics judge it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, final

from glassformer.foundation.errors import CheckFailed, GlassformerError, Interrupted, RunError
from glassformer.foundation.plugins import loaded_plugins
from glassformer.foundation.progress import Watcher
from glassformer.study.attempts import note_earlier, refuse_same_runs, take_back
from glassformer.study.bank import choose_design
from glassformer.study.budget import Budget, seconds_of
from glassformer.study.directory import StudyDirectory
from glassformer.study.evidence import Problem
from glassformer.study.executors.base import Ended, Executor, Started, Task, refusal
from glassformer.study.keeping import Keeper
from glassformer.study.plan import BASE, Resolve, StudyPlan, Trial
from glassformer.study.progress import ProgressTracker
from glassformer.study.results import TrialResult, metric_of, read_trial
from glassformer.study.store import TrialStore
from glassformer.study.study import Study
from glassformer.study.tuned_settings import TunedSettings
from glassformer.study.tuning import best_setting, costs_otherwise
from glassformer.study.variant_data import differing_key, prepared_facts
from glassformer.study.variants import Facts, VariantBook, planned_flops
from glassformer.study.wording import STEP_DIFFERS, leak_found
from glassformer.training.signals import StopSignal


@final
class Conductor:
    """One study on its way. ``executor`` is asked for when there is work, and not before."""

    def __init__(
        self,
        plan: StudyPlan,
        directory: StudyDirectory,
        resolve: Resolve,
        executor: Callable[[], Executor],
        *,
        plugins: Sequence[Path | str],
        watch: Watcher,
        named: bool = True,
        store: TrialStore | None = None,
        baseline: str = "paired",
    ) -> None:
        """``named``: the user named the folder, and so may have the same runs judged again, marked. ``store``: where finished
        trials are kept and taken from; ``baseline``: how a study that begins is designed (auto, paired, bank)."""
        self.plan, self.directory, self.resolve, self.watch = plan, directory, resolve, watch
        self.plugins = [str(Path(plugin).resolve()) for plugin in plugins]
        self.named, self.store, self.baseline = named, store, baseline
        self.facts: dict[str, Facts] = {}
        self._settings = TunedSettings()
        self.failures: dict[tuple[str, int], str] = {}
        self._open = executor
        self._executor: Executor | None = None
        self._keeper: Keeper | None = None
        self._stop, self._in_ledger = StopSignal(), False
        self._done: dict[str, TrialResult] = {}
        self._budget = Budget(plan.budget_hours)

    def run(self) -> Study:
        """To the end: every planned look, or as many as it takes to decide, or as many as the budget pays for."""
        with self._stop:
            try:
                self._know_the_variants()
                self._choose_design()
                self._know_what_came_before()
                ready = self._tune()
                for number, seeds in enumerate(self.plan.all_looks):
                    if not ready:
                        break
                    going = self._going(number)
                    searched = not self.plan.changes  # no change: the setting that was found is measured on every look
                    if not (going or searched) or not self._look(seeds, going):
                        break
            except GlassformerError:
                if self._in_ledger:
                    done = {trial.variant for trial in self.plan.trials(adapted=self._adapted()) if self._read(trial).done}
                    self._take_back([name for name in self.facts if name not in done])
                raise
            finally:
                if self._executor is not None:
                    self._executor.close()
        study = self.study()
        study.write()
        self._take_back([name for name in self.facts if not self._trained(name)])
        return study

    def study(self) -> Study:
        return Study(self.directory, self.failures)

    # -- before the first trial ------------------------------------------------------------------------------------------

    def _know_the_variants(self) -> None:
        """Data, cost, checks and equal sizes of every variant; what was found before and still holds is kept."""
        book = VariantBook.read(self.directory.variants_file)
        book.refuse_other_plugins(loaded_plugins(), self.directory.variants_file)
        self.facts = prepared_facts(self.plan, self.resolve, watch=self.watch)
        for name, facts in self.facts.items():
            book.refuse_other_data(name, facts, self.directory.variants_file)
            before = book.variants.get(name)
            if before is not None and before.check is not None and before.recipe == facts.recipe:
                self.facts[name] = replace(before, parent=facts.parent, asked=facts.asked)
        unknown = [name for name, facts in self.facts.items() if facts.check is None]
        if unknown:  # nothing is kept of these variants: the trials' processes start while these are inspected
            self._ready().warm_up(len(self.plan.tuning_trials()) or len(self.plan.trials()))
        self._inspect(unknown)
        self._write_book()
        for facts in self.facts.values():
            for note in facts.notes:
                self.watch.say(note)
        self._tell_leaks(self.facts)

    def _tell_leaks(self, names: Iterable[str]) -> None:
        """Says which of these are not trained; without a baseline there is nothing to compare."""
        for name in names:
            facts = self.facts[name]
            if facts.leak is not None and not self.plan.allow_leaks:
                if name == BASE:
                    raise CheckFailed(f"The baseline itself fails a check, so nothing can be compared with it. {facts.leak}")
                self.watch.say(f"{name} is not trained: {facts.leak} --allow-leaks trains it all the same, marked as tainted.")

    def _inspect(self, names: Sequence[str]) -> None:
        """Cost and checks of these variants, with what matching and tuning set."""
        tasks = [Task("inspect", name, {**self._inspecting(), "recipe": self._recipe(name)}) for name in names]
        for task, answer in self._answers(tasks):
            self.facts[task.label] = self.facts[task.label].inspected(answer)

    def _choose_design(self) -> None:
        """Paired or against kept runs of the baseline: decided once, before the first trial, and written into the plan."""
        self._keeper = Keeper(self.store, self.plan, self.directory, self.facts, self._recipe_of, self.watch)
        if not self.directory.begun():
            kept = self._keeper.seeds(BASE, self._recipe(BASE))
            self.plan, why = choose_design(self.plan, kept, self.baseline, self._keeper.bad(kept, self._recipe(BASE)))
            self._keeper.plan = self.plan
            self.directory.settle(self.plan)
            self.watch.say(why)
        foreseen = self._keeper.foreseen(self.plan, self._recipe(BASE))
        if foreseen:
            self.watch.say(foreseen)

    def _know_what_came_before(self) -> None:
        """Other studies of the same changes are counted, once, before anything is trained."""
        begun, self._in_ledger = self.directory.earlier_file.is_file(), True
        earlier = note_earlier(self.plan, self._book(), self.directory)
        if not begun and not self.named:
            refuse_same_runs(self.plan, earlier, self.plan.same_within)
        for name, one in earlier.items():
            for remark in one.remarks(self.plan.same_within):
                self.watch.say(f"{name}: {remark}")

    def _take_back(self, unseen: Sequence[str]) -> None:
        """A study that shows nothing of a change was no attempt at it: it ended before a run of it was done, or it leaks."""
        take_back(self.plan, self._book(), self.directory, unseen)

    def _book(self) -> VariantBook:
        return VariantBook(self.facts, tuple(loaded_plugins()))

    def _write_book(self) -> None:
        self._book().write(self.directory.variants_file)

    def _everywhere(self) -> dict[str, Any]:
        return {"cwd": os.getcwd(), "plugins": self.plugins}

    def _inspecting(self) -> dict[str, Any]:
        return {**self._everywhere(), "recheck": self.store is None}

    def _recipe(self, variant: str, more: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """The plain recipe of a variant as it is trained: with what matching and tuning set."""
        return dict(self.resolve({**self.plan.settings(variant), **self.facts[variant].adapted, **(more or {})}))

    # -- trials ----------------------------------------------------------------------------------------------------------

    def _tune(self) -> bool:
        """Every variant's own best point of its grid, by the mean of the metric over the tuning seeds.

        False when the budget ended before every point was tried: nothing is chosen then, because what was tried by chance
        would be the choice for ever.
        """
        if self.plan.tune is None or all(facts.tuned for facts in self.facts.values()):
            return True
        trials = [trial for trial in self.plan.tuning_trials(self._adapted()) if self._trained(trial.variant)]
        self.watch.say(f"Tuning: {len(self.plan.tuning_points(BASE))} settings for each variant, on seeds of their own.")
        self._inspect_settings(trials)
        results = self._finish([trial for trial in trials if not self._settings.leaks(trial, self.facts)])
        if self._budget.used_up and any(one.status == "pending" and self._trained(one.trial.variant) for one in results):
            return False
        chosen = [name for name in self.plan.variants if self._trained(name) and not self.facts[name].tuned]
        for name in chosen:
            point, note = best_setting(name, self.plan, [one for one in results if one.trial.variant == name])
            self.facts[name] = replace(self.facts[name], tuned=point, notes=(*self.facts[name].notes, note))
            self.watch.say(note)
        self._settings = TunedSettings()  # what is trained from here on is inspected as a variant
        changed = [name for name in chosen if costs_otherwise(self.facts[name].tuned)]
        self._inspect(changed)
        self._write_book()
        self._tell_leaks(changed)
        return True

    def _inspect_settings(self, trials: Sequence[Trial]) -> None:
        """Checks what a variant's own check is not about: settings of its grid that make another model."""
        left, asked = (trial for trial in trials if not self._read(trial).done), self._inspecting()
        for task, answer in self._answers(self._settings.tasks(self.plan, left, self._recipe_of, asked)):
            for told in self._settings.note(task.label, answer, self.plan, self.facts):
                self.watch.say(told)

    def _adapted(self) -> dict[str, dict[str, Any]]:
        return {name: facts.adapted for name, facts in self.facts.items()}

    def _trained(self, variant: str) -> bool:
        return self.facts[variant].leak is None or self.plan.allow_leaks

    def _going(self, look: int) -> list[str]:
        """The changes that this look is for: at the first all that can be trained, later those still undecided."""
        names = [change.name for change in self.plan.changes if self._trained(change.name)]
        if look == 0:
            return names
        undecided = {verdict.variant for verdict in self.study().verdicts if verdict.verdict == "not decided"}
        return [name for name in names if name in undecided]

    def _look(self, seeds: int, going: Sequence[str]) -> bool:
        """Runs what this look still needs. False when the study cannot go on after it."""
        trials = [trial for trial in self.plan.trials(seeds, self._adapted()) if trial.variant in (BASE, *going)]
        if not self._affordable(trials, seeds):
            return False
        results = self._finish(trials)
        broken = [one for one in results if one.trial.variant == BASE and one.problem is not None]
        return not broken and all(one.status != "pending" for one in results if self._trained(one.trial.variant))

    def _affordable(self, trials: Sequence[Trial], seeds: int) -> bool:
        """Whether the budget pays for a later look; the first is begun in any case, and stopped when the budget is used up."""
        if self.plan.budget_hours is None or seeds == self.plan.all_looks[0]:
            return True
        results = [self._read(trial) for trial in trials]
        done = [self._seconds(result) for result in results if result.done]
        left = [one.trial for one in results if not one.done and not (self._keeper and self._keeper.holds(one.trial))]
        self._budget.spent = self._spent_before()
        objection = self._budget.objection(seeds, len(left), done)
        if objection:
            self.watch.say(objection)
        return objection is None

    def _spent_before(self) -> float:
        """Seconds that the trials trained here took, those of tuning too. Read only where a budget asks for it."""
        if self.plan.budget_hours is None:
            return 0.0
        trials = [*self.plan.tuning_trials(self._adapted()), *self.plan.trials(adapted=self._adapted())]
        return sum(self._seconds(self._read(trial)) for trial in trials if not self.directory.was_taken(trial))

    def _seconds(self, result: TrialResult) -> float:
        return seconds_of(result, self._recipe_of(result.trial))

    def _read(self, trial: Trial, *, repair: bool = False) -> TrialResult:
        """What the folder says; with ``repair`` a damaged one is set aside, so that the trial runs again."""
        if trial.label in self._done:
            return self._done[trial.label]
        folder = self.directory.trial(trial)
        try:
            other = partial(differing_key, recipe_of=partial(self._recipe_of, trial))
            result = read_trial(folder, trial, self.plan.judged, self.plan.split_of(trial), other)
            if result.done:  # its folder does not change any more
                self._done[trial.label] = result
            return result
        except RunError as error:
            if not repair:
                return TrialResult(trial, "pending", str(error))
            place = self.directory.set_aside(folder)
            self.watch.say(f"{error} The trial is run again; what was there is kept in {place}.")
            return TrialResult(trial, "pending")

    def _recipe_of(self, trial: Trial) -> dict[str, Any]:
        return dict(self.resolve(trial.set))

    def _finish(self, trials: Sequence[Trial]) -> list[TrialResult]:
        """Runs the trials that are not done, tells how it goes, and gives all their results."""
        results = {trial.label: self._read(trial, repair=True) for trial in trials}
        left = [trial for trial in trials if not results[trial.label].done]
        taken = self._keeper.take(left) if self._keeper else []
        results.update({trial.label: self._read(trial, repair=True) for trial in taken})
        left = self._worth_running([trial for trial in left if not results[trial.label].done], list(results.values()))
        if left:
            self._budget.spent = self._spent_before()
            self._run(trials, left, {label: one.problem is None for label, one in results.items() if one.done})
        return [self._with_failure(self._read(trial)) for trial in trials]

    def _worth_running(self, left: list[Trial], results: Sequence[TrialResult]) -> list[Trial]:
        """Where a run of the baseline that was kept is bad, the changes are not begun: see ``_give_up_on_changes``."""
        spoilt = (one for one in results if one.done and one.problem is not None)
        bad = next((one.trial for one in spoilt if one.trial.variant == BASE and one.trial.area == "trials"), None)
        worth = [trial for trial in left if bad is None or trial.variant == BASE or trial.area != "trials"]
        if bad is not None and len(worth) < len(left):
            self.watch.say(
                f"The baseline cannot be used ({bad.label}), so {len(left) - len(worth)} trials of changes are not begun."
            )
        return worth

    def _with_failure(self, result: TrialResult) -> TrialResult:
        reason = self.failures.get((result.trial.variant, result.trial.seed))
        return replace(result, status="failed", reason=reason) if result.status == "pending" and reason else result

    def _run(self, trials: Sequence[Trial], left: Sequence[Trial], done: Mapping[str, bool]) -> None:
        progress = ProgressTracker(self.watch, self.facts, self.directory.trial, self._mean)
        progress.begin(trials, done)
        by_label = {trial.label: trial for trial in left}
        planned = planned_flops([*self.plan.tuning_trials(), *self.plan.trials()], self.facts, self._ready().gpus)
        tasks = [self._task(trial, planned) for trial in left]
        for task, answer in self._answers(tasks, progress, by_label):
            trial = by_label[task.label]
            usable = self._note(trial, answer)
            if self._keeper is not None and self._read(trial).done:
                self._keeper.keep(trial, self._read(trial))
            progress.end(trial, usable=usable, seconds=float(answer.get("seconds", 0.0)))
            self._spend(float(answer.get("seconds", 0.0)))
            if not usable and trial.variant == BASE and trial.area == "trials":
                self._give_up_on_changes(trial)

    def _mean(self, variant: str) -> float | None:
        if not self._trained(variant):
            return None
        own = [one for one in self._done.values() if one.trial.variant == variant and one.trial.area == "trials"]
        values = [metric_of(one.units, self.plan.judged) for one in own if one.units is not None]
        return sum(values) / len(values) if values else None

    def _task(self, trial: Trial, planned: float) -> Task:
        facts = self._settings.facts(trial, self.facts)
        values = {
            **self._everywhere(),
            "study": str(self.directory.root.resolve()),
            "folder": str(self.directory.trial(trial).resolve()),
            "recipe": self._recipe_of(trial),
            "allow_leaks": self.plan.allow_leaks,
            "split": self.plan.split_of(trial),
            "check": facts.check if facts.leak is None else None,
            "check_trained": self.plan.checks_trained(trial),
            "store": self.store is not None,
            "planned_flops": planned,
        }
        return Task("trial", trial.label, values)

    def _note(self, trial: Trial, answer: dict[str, Any]) -> bool:
        """Writes down how a trial ended; True when it can be used. What only the user can mend ends the study."""
        for note in answer.get("notes", ()):
            self.watch.say(note)
        status = answer.get("status", "failed")
        if status == "finished":
            self.failures.pop((trial.variant, trial.seed), None)
            result = self._read(trial)
            if result.problem is Problem.LEAK and self.facts[trial.variant].leak is None and result.evaluation is not None:
                self._found_leak(trial.variant, str(result.evaluation.tainted), answer)
            return result.problem is None
        reason = str(answer.get("lost") or answer["reason"])
        self.watch.say(f"{trial.label}: {reason}")
        if status == "leak":
            self._found_leak(trial.variant, reason, answer)
        elif status == "failed":
            self.failures[trial.variant, trial.seed] = reason
        return False

    def _found_leak(self, variant: str, reason: str, answer: Mapping[str, Any]) -> None:
        """One trial leaks, and so does every seed of it: the rest is not begun, and nothing of it stays in the store.

        The trial's ``answer`` says whether it was found before training, in the step as it runs, or in the trained model, and
        whether that step merely differs from the plain one."""
        assert self._executor is not None
        in_step, differs = answer.get("before_training", False), answer.get("only_differs", False)
        facts = replace(self.facts[variant], leak=reason, leaks_in_step=in_step, step_differs=differs)
        self.facts[variant] = facts
        self._write_book()
        trials = [*self.plan.tuning_trials(self._adapted()), *self.plan.trials(adapted=self._adapted())]
        own = [trial for trial in trials if trial.variant == variant]
        if self._keeper is not None:
            self._keeper.drop(own)
        if not self.plan.allow_leaks:
            labels = {trial.label for trial in own}
            taken = self._executor.withdraw(unless=lambda task: task.label not in labels)
            if taken:
                several = "1 trial" if len(taken) == 1 else f"{len(taken)} trials"
                what = STEP_DIFFERS.format(it=variant) if differs else f"{variant} leaks {leak_found(in_step=in_step)}"
                self.watch.say(f"{what}: {several} of it not begun.")

    def _give_up_on_changes(self, trial: Trial) -> None:
        """A bad run of the baseline makes the study invalid: its other seeds are run to say how often, the rest is saved."""
        assert self._executor is not None
        labels = {one.label for one in self.plan.trials() if one.variant == BASE}
        taken = self._executor.withdraw(unless=lambda task: task.label in labels)
        if taken:
            self.watch.say(f"The baseline cannot be used ({trial.label}), so {len(taken)} trials of changes are not begun.")

    def _spend(self, seconds: float) -> None:
        self._budget.spent += seconds
        if self._budget.used_up and self._executor is not None:
            taken = self._executor.withdraw(unless=lambda task: False)
            if taken:
                self.watch.say(self._budget.told(len(taken)))

    # -- the executor ----------------------------------------------------------------------------------------------------

    def _ready(self) -> Executor:
        """The executor, opened when it is first needed, with as many processes as the variants' memory leaves room for."""
        if self._executor is None:
            self._executor = self._open()
        self._executor.fit(max([*(facts.memory_bytes for facts in self.facts.values()), *self._settings.memory()]))
        return self._executor

    def _answers(
        self, tasks: Sequence[Task], progress: ProgressTracker | None = None, trials: Mapping[str, Trial] | None = None
    ) -> Iterator[tuple[Task, dict[str, Any]]]:
        """Hands the tasks out and yields each with its answer. A stop lets running ones save, and then ends the study."""
        if not tasks:
            return
        executor, told = self._ready(), False
        for event in executor.run(tasks):
            if self._stop.requested and not told:
                told = True
                self.watch.say("Stopping: running trials finish their step and save. A second Ctrl-C ends at once.")
                executor.stop()
            if isinstance(event, Ended):
                if self._is_stop(event.answer):
                    continue
                yield event.task, event.answer
            elif progress is not None and trials is not None:
                progress.start(trials[event.task.label]) if isinstance(event, Started) else progress.tell()
        if self._stop.requested:
            raise Interrupted(
                "Stopped; what was finished is kept, and the same command goes on from there.",
                signal_number=self._stop.number or 2,
            )

    def _is_stop(self, answer: dict[str, Any]) -> bool:
        """True for what ended because the study is being stopped; raises what the user has to mend."""
        if answer.get("status") == "stopped":
            self._stop.number = self._stop.number or int(answer.get("signal", 2))
            return True
        if answer.get("status") == "refused":
            raise refusal(answer)
        return "lost" in answer and self._stop.requested
