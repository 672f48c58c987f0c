"""The main loop of a study: inspect the variants, tune them, then run the trials of one look after the other.

Progress is read from the study's folder, never held in memory alone, so a killed study resumes where it stopped. This module
only schedules: executors run the trials, and ``verdict`` judges them.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, final

import numpy as np

from glassformer.foundation.errors import CheckFailed, GlassformerError, Interrupted, RunError
from glassformer.foundation.plugins import loaded_plugins
from glassformer.foundation.progress import duration
from glassformer.recipe import Recipe
from glassformer.run import Run
from glassformer.runs.callbacks import callbacks_of
from glassformer.runs.directory import RunDirectory
from glassformer.study.directory import REUSED, StudyDirectory
from glassformer.study.history.attempts import record_earlier_studies, withdraw_attempts
from glassformer.study.planning.design import choose_design, expected_power
from glassformer.study.planning.plan import BASE, Resolve, StudyPlan, Trial, program_of
from glassformer.study.planning.variant_data import differing_key, judge_of, prepared_facts
from glassformer.study.planning.variant_facts import Facts, VariantBook, require_comparable
from glassformer.study.reporting.wording import LEAKS, STEP_DIFFERS
from glassformer.study.running.execution import Execution
from glassformer.study.running.executors.base import Ended, Executor, Started, Task, refusal
from glassformer.study.running.progress import ProgressTracker
from glassformer.study.running.trial_results import TrialResult, metric_of, read_trial
from glassformer.study.running.trial_store import StudyStore, TrialStore
from glassformer.study.statistics.evidence import Problem
from glassformer.study.statistics.selection_variance import affects_cost, best_setting, makes_another_model
from glassformer.study.study import Study
from glassformer.study.trial_record import write_record
from glassformer.training.signals import StopSignal

LARGER_BUDGET = "A larger budget_hours continues from here."


@final
class StudyRunner:
    """Runs one study. ``executor`` is a factory: it is called when there is work, and not before."""

    def __init__(
        self,
        plan: StudyPlan,
        directory: StudyDirectory,
        resolve: Resolve,
        executor: Callable[[], Executor],
        how: Execution,
    ) -> None:
        self.plan, self.directory, self.resolve, self.how, self.watch = plan, directory, resolve, how, how.watch
        self.plugins = [str(Path(plugin).resolve()) for plugin in how.plugins]
        self.facts: dict[str, Facts] = {}
        self._point_facts: dict[tuple[str, int], Facts] = {}
        """Of tuning points that make another model than their variant's, by variant and number of the point."""
        self.failures: dict[tuple[str, int], str] = {}
        self.callbacks = callbacks_of(how.callbacks)
        self._make_executor = executor
        self._executor: Executor | None = None
        store = how.store and "time" not in plan.equal  # stored runs were timed on another day
        self._store = StudyStore(TrialStore(), plan, directory, self.facts, self._recipe_of, how.watch) if store else None
        self._stop, self._in_ledger = StopSignal(), False
        self._done: dict[str, TrialResult] = {}
        self._seconds_spent = 0.0
        self._ends = None if how.minutes is None else time.monotonic() + 60.0 * how.minutes
        self._longest = 0.0  # seconds of the longest trial of this session

    def run(self) -> Study:
        """Runs every planned look, or until all changes are decided, or until the budget is used up."""
        with self._stop:
            try:
                self._inspect_variants()
                self._choose_design()
                self._register_in_ledger()
                if self._tune():
                    self._run_looks()
            except GlassformerError:
                if self._in_ledger:  # changes without any result do not count as attempts
                    done = {trial.variant for trial in self.plan.trials(adapted=self._adapted()) if self._read(trial).done}
                    withdraw_attempts(self.plan, self._book(), self.directory, self.facts.keys() - done)
                raise
            finally:
                if self._executor is not None:
                    self._executor.close()
        study = self.study()
        self._require_unchanged(study)
        study.write()
        leaking = [name for name in self.facts if not self._is_trainable(name)]
        withdraw_attempts(self.plan, self._book(), self.directory, leaking)
        return study

    def _run_looks(self) -> None:
        search_only = not self.plan.changes  # the tuned setting is then measured at every look
        for number, seeds in enumerate(self.plan.all_looks):
            names = [change.name for change in self.plan.changes if self._is_trainable(change.name)]
            if number > 0:
                undecided = {verdict.variant for verdict in self.study().verdicts if verdict.verdict == "not decided"}
                names = [name for name in names if name in undecided]
            if not (names or search_only) or not self._look(seeds, names):
                break

    def _require_unchanged(self, study: Study) -> None:
        """Raises where an evaluation is not what its trial gave: something has written into the study's folder since."""
        for one in (one for rows in study.results.values() for one in rows):
            known = self._done.get(one.trial.label)
            if known is None or known.units is None:
                continue
            units = known.units[self.plan.judged.name]
            now = (one.units or {}).get(self.plan.judged.name)
            if now is None or not (np.array_equal(now.sums, units.sums) and np.array_equal(now.weights, units.weights)):
                raise RunError(
                    f"{one.trial.label}: its evaluation in {self.directory.trial(one.trial)} has changed since the trial "
                    "ended; no verdict is made of it. Delete that folder, and the same command trains it again.",
                    reason="evaluation-changed",
                )

    def study(self) -> Study:
        return Study(self.directory, self.failures)

    # -- before the first trial ------------------------------------------------------------------------------------------

    def _inspect_variants(self) -> None:
        """Data, cost, checks and matched sizes of every variant; results of an earlier session are reused where still valid."""
        book = VariantBook.read(self.directory.variants_file)
        book.require_same_plugins(loaded_plugins(), self.directory.variants_file)
        self.facts.update(prepared_facts(self.plan, self.resolve, watch=self.watch))
        for name, facts in self.facts.items():
            book.require_same_data(name, facts, self.directory.variants_file)
            before = book.variants.get(name)
            if before is not None and before.check is not None and before.recipe == facts.recipe:
                self.facts[name] = replace(before, parent=facts.parent, asked=facts.asked)
        unknown = [name for name, facts in self.facts.items() if facts.check is None]
        if unknown:  # worker processes start up while these are inspected
            self._get_executor().warm_up(len(self.plan.tuning_trials()) or len(self.plan.trials()))
        self._run_inspection(unknown)
        require_comparable(self.facts, self.plan.equal)
        self._book().write(self.directory.variants_file)
        self.directory.store_plugins(loaded_plugins())
        for facts in self.facts.values():
            for note in facts.notes:
                self.watch.say(note)
        self._report_leaks(self.facts)

    def _report_leaks(self, names: Iterable[str]) -> None:
        """Reports which of these are not trained because they leak; raises if the baseline is one of them."""
        for name in names:
            facts = self.facts[name]
            if facts.leak is not None and not self.plan.allow_leaks:
                if name == BASE:
                    raise CheckFailed(f"The baseline itself fails a check, so nothing can be compared with it. {facts.leak}")
                anyway = " Use --allow-leaks to train it anyway, marked tainted." if facts.parameters else ""  # it was built
                self.watch.say(f"{name} is not trained: {facts.leak}{anyway}")

    def _run_inspection(self, names: Sequence[str]) -> None:
        """Cost and checks of these variants, with the settings from matching and tuning."""
        tasks = [self._inspection(name, name, self._recipe(name)) for name in names]
        for task, answer in self._run_tasks(tasks):
            try:
                self.facts[task.label] = self.facts[task.label].inspected(answer)
            except RunError as error:
                if task.label == BASE:
                    raise
                self.facts[task.label] = self.facts[task.label].uninspected(str(error))

    def _inspection(self, label: str, variant: str, recipe: Mapping[str, Any]) -> Task:
        values = {**self._task_context(), "recipe": recipe, "judge": self._judge(variant, recipe)}
        return Task("inspect", label, values)

    def _choose_design(self) -> None:
        """Paired, or against stored runs of the baseline: chosen once, before the first trial, and written into the plan."""
        stored, metric = self._store.baseline_runs(self._recipe(BASE)) if self._store else {}, self.plan.judged
        said = ""
        if not self.directory.begun():
            bad = [seed for seed, one in stored.items() if one.problem is not None]
            wanted = "paired" if self.plan.confirms is not None else self.how.baseline
            self.plan, said = choose_design(self.plan, [*stored], wanted, bad)
            self.directory.write_design(self.plan)
        if self._store is not None:
            self._store.plan = self.plan
        units = [one.units for one in stored.values() if one.units is not None and metric.name in one.units]
        power = expected_power(self.plan, np.array([metric_of(one, metric) for one in units]))
        for sentence in filter(None, (said, power)):
            self.watch.say(sentence)

    def _register_in_ledger(self) -> None:
        """Enters the study in the ledger, and reports earlier studies of the same changes, before anything is trained."""
        self._in_ledger = True
        for name, one in record_earlier_studies(self.plan, self._book(), self.directory).items():
            for remark in one.remarks(self.plan.same_within):
                self.watch.say(f"{name}: {remark}")

    def _book(self) -> VariantBook:
        return VariantBook(self.facts, tuple(loaded_plugins()))

    def _task_context(self) -> dict[str, Any]:
        return {"cwd": os.getcwd(), "plugins": self.plugins, "recheck": self._store is None, "split": self.plan.split}

    def _recipe(self, variant: str, more: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """The resolved recipe of a variant as it is trained, with the settings from matching and tuning."""
        return dict(self.resolve({**self.plan.settings(variant), **self.facts[variant].adapted, **(more or {})}))

    # -- trials ----------------------------------------------------------------------------------------------------------

    def _tune(self) -> bool:
        """Chooses for every variant the best point of its own grid, by the mean of the metric over the tuning seeds.

        False when the budget ended before every point was tried: then nothing is chosen, since a choice is final.
        """
        if self.plan.tune is None or all(facts.tuned for facts in self.facts.values()):
            return True
        trials = [trial for trial in self.plan.tuning_trials(self._adapted()) if self._is_trainable(trial.variant)]
        self.watch.say(f"Tuning: {len(self.plan.tuning_points(BASE))} settings for each variant, on separate seeds.")
        self._inspect_settings(trials)
        results = self._complete([trial for trial in trials if not self._point_leaks(trial)])
        if self._budget_used_up() and any(one.status == "pending" and self._is_trainable(one.trial.variant) for one in results):
            return False
        chosen = [name for name in self.plan.variants if self._is_trainable(name) and not self.facts[name].tuned]
        for name in chosen:
            point, note = best_setting(name, self.plan, [one for one in results if one.trial.variant == name])
            self.facts[name] = replace(self.facts[name], tuned=point, notes=(*self.facts[name].notes, note))
            self.watch.say(note)
        self._point_facts.clear()  # what is trained from here on is inspected as a variant
        changed = [name for name in chosen if affects_cost(self.facts[name].tuned)]
        self._run_inspection(changed)
        self._book().write(self.directory.variants_file)
        self._report_leaks(changed)
        return True

    def _inspect_settings(self, trials: Sequence[Trial]) -> None:
        """Checks the tuning points that make another model than their variant's; one that fails its check is not tried."""
        first: dict[str, Trial] = {}
        for trial in trials:
            if makes_another_model(self.plan.tuning_points(trial.variant)[trial.point]) and not self._read(trial).done:
                first.setdefault(f"{trial.variant} (setting {trial.point + 1} of its grid)", trial)
        recipes = {label: self._recipe_of(trial) for label, trial in first.items()}
        tasks = [self._inspection(label, first[label].variant, recipe) for label, recipe in recipes.items()]
        for task, answer in self._run_tasks(tasks):
            trial = first[task.label]
            facts = self._point_facts[trial.variant, trial.point] = self.facts[trial.variant].inspected(answer)
            if self._point_leaks(trial):
                point = self.plan.tuning_points(trial.variant)[trial.point]
                setting = ", ".join(f"{key}={value}" for key, value in point.items())
                self.watch.say(f"{trial.variant} with {setting} is not tried: {facts.leak}")

    def _facts_of(self, trial: Trial) -> Facts:
        """What is known of the model that a trial trains: of its tuning point, or of its variant."""
        own = self._point_facts.get((trial.variant, trial.point)) if trial.area == "tuning" else None
        return own or self.facts[trial.variant]

    def _point_leaks(self, trial: Trial) -> bool:
        """Whether a tuning point fails its check though its variant passes."""
        return self.facts[trial.variant].leak is None and self._facts_of(trial).leak is not None

    def _adapted(self) -> dict[str, dict[str, Any]]:
        return {name: facts.adapted for name, facts in self.facts.items()}

    def _is_trainable(self, variant: str) -> bool:
        return self.facts[variant].leak is None or self.plan.allow_leaks

    def _look(self, seeds: int, undecided: Sequence[str]) -> bool:
        """Runs the missing trials of this look. False when the study has to end after it."""
        trials = [trial for trial in self.plan.trials(seeds, self._adapted()) if trial.variant in (BASE, *undecided)]
        if not self._fits_budget(trials, seeds):
            return False
        if self._time_is_up() and any(not self._read(trial).done for trial in trials):
            return False
        results = self._complete(trials)
        baseline_failed = any(one.trial.variant == BASE and one.problem is not None for one in results)
        complete = all(one.status != "pending" for one in results if self._is_trainable(one.trial.variant))
        return complete and not baseline_failed

    def _fits_budget(self, trials: Sequence[Trial], seeds: int) -> bool:
        """Whether the budget covers a later look; the first is always started, and stopped when the budget is used up."""
        if self.plan.budget_hours is None or seeds == self.plan.all_looks[0]:
            return True
        results = [self._read(trial) for trial in trials]
        done = [result.logged.get("seconds", 0.0) for result in results if result.done]
        to_train = [one for one in results if not one.done and not (self._store and self._store.contains(one.trial))]
        cost = len(to_train) * sum(done) / max(1, len(done))
        left = 3600.0 * self.plan.budget_hours - self._spent_before()
        if cost > left:
            self.watch.say(
                f"The look at {seeds} seeds would take about {duration(cost)} of computing, and {duration(max(0.0, left))} of "
                f"the budget are left: not started. {LARGER_BUDGET}"
            )
        return cost <= left

    def _budget_used_up(self) -> bool:
        hours = self.plan.budget_hours
        return self._time_is_up() or (hours is not None and self._seconds_spent > 3600.0 * hours)

    def _time_is_up(self) -> bool:
        """Whether a further trial, as long as the longest so far, would end after the last of ``minutes``."""
        return self._ends is not None and time.monotonic() + self._longest > self._ends

    def _spent_before(self) -> float:
        """Seconds spent on the trials trained in this study, tuning included. 0 without a budget, where nobody needs it."""
        if self.plan.budget_hours is None:
            return 0.0
        trained_here = [one for one in self._all_trials() if not (self.directory.trial(one) / REUSED).is_file()]
        return sum(self._read(one).logged.get("seconds", 0.0) for one in trained_here)

    def _all_trials(self) -> list[Trial]:
        return [*self.plan.tuning_trials(self._adapted()), *self.plan.trials(adapted=self._adapted())]

    def _read(self, trial: Trial, *, repair: bool = False) -> TrialResult:
        """The trial's result from its folder; with ``repair`` a damaged folder is moved aside, so that the trial runs again."""
        if trial.label in self._done:
            return self._done[trial.label]
        folder = self.directory.trial(trial)
        try:
            other = partial(differing_key, recipe_of=partial(self._recipe_of, trial))
            split = self.plan.split_of(trial) + self.facts[trial.variant].judge
            result = read_trial(folder, trial, self.plan.judged, split, other)
            if result.done:  # final: safe to cache
                self._done[trial.label] = result
            return result
        except RunError as error:
            if not repair:
                return TrialResult(trial, "pending", str(error))
            place = self.directory.set_aside(folder)
            self.watch.say(f"{error} The trial is run again; the old files are in {place}.")
            return TrialResult(trial, "pending")

    def _recipe_of(self, trial: Trial) -> dict[str, Any]:
        return dict(self.resolve(trial.set))

    def _complete(self, trials: Sequence[Trial]) -> list[TrialResult]:
        """Results of all ``trials``: those not done are copied from the store or run."""
        results = {trial.label: self._read(trial, repair=True) for trial in trials}
        left = [trial for trial in trials if not results[trial.label].done]
        reused = self._store.reuse(left) if self._store else []
        results.update({trial.label: self._read(trial, repair=True) for trial in reused})
        for trial in reused:
            self._tell(trial)
        left = [trial for trial in left if not results[trial.label].done]
        unusable = (one.trial for one in results.values() if one.done and one.problem is not None)
        failed = next((trial for trial in unusable if trial.variant == BASE and trial.area == "trials"), None)
        if failed is not None:  # compare ``_cancel_changes``
            of_changes = [trial for trial in left if trial.variant != BASE and trial.area == "trials"]
            left = [trial for trial in left if trial not in of_changes]
            self._say_changes_skipped(failed, len(of_changes))
        if left:
            self._seconds_spent = self._spent_before()
            self._run_trials(trials, left, {label: one.problem is None for label, one in results.items() if one.done})
        final = [self._read(trial) for trial in trials]
        reasons = [self.failures.get((trial.variant, trial.seed)) for trial in trials]
        return [
            replace(result, status="failed", reason=reason) if result.status == "pending" and reason else result
            for result, reason in zip(final, reasons)
        ]

    def _say_changes_skipped(self, failed: Trial, count: int) -> None:
        if count:
            self.watch.say(f"The baseline cannot be used ({failed.label}), so {count} trials of changes are not started.")

    def _run_trials(self, trials: Sequence[Trial], left: Sequence[Trial], done: Mapping[str, bool]) -> None:
        progress = ProgressTracker(self.watch, self.facts, self.directory.trial, self._mean_metric)
        progress.begin(trials, done)
        by_label = {trial.label: trial for trial in left}
        gpus = self._get_executor().gpus
        # of all planned trials on one GPU, so that compiling can pay; 0 where the number of GPUs is not known
        planned = sum(float(self.facts[trial.variant].flops) for trial in self._all_trials()) / gpus if gpus else 0.0
        tasks = [self._task(trial, planned) for trial in left]
        for task, answer in self._run_tasks(tasks, progress, by_label):
            trial, seconds = by_label[task.label], float(answer.get("seconds", 0.0))
            usable = self._record_outcome(trial, answer)
            if self._store is not None and self._read(trial).done and "record" not in answer:
                self._store.save(trial, self._read(trial))
            progress.end(trial, usable=usable, seconds=seconds)
            self._tell(trial)
            self._seconds_spent += seconds
            self._longest = max(self._longest, seconds)
            if self._budget_used_up() and (cancelled := self._get_executor().withdraw(unless=lambda task: False)):
                if self._time_is_up():
                    self.watch.say(f"Time is up: {len(cancelled)} trials are not started. The same command continues.")
                else:
                    hours = f"{self.plan.budget_hours:g}"
                    self.watch.say(
                        f"The budget of {hours} hours is used up: {len(cancelled)} trials are not started. {LARGER_BUDGET}"
                    )
            if not usable and trial.variant == BASE and trial.area == "trials":
                self._cancel_changes(trial)

    def _tell(self, trial: Trial) -> None:
        """Tells the callbacks of a finished trial; tuning has trials of its own, which are left out."""
        if self.callbacks and trial.area == "trials" and self._read(trial).status == "finished":
            for one in self.callbacks:
                one.on_trial(trial.variant, trial.seed, Run(RunDirectory(self.directory.trial(trial))))

    def _mean_metric(self, variant: str) -> float | None:
        if not self._is_trainable(variant):
            return None
        own = [one for one in self._done.values() if one.trial.variant == variant and one.trial.area == "trials"]
        values = [metric_of(one.units, self.plan.judged) for one in own if one.units is not None]
        return sum(values) / len(values) if values else None

    def _task(self, trial: Trial, planned: float) -> Task:
        facts = self._facts_of(trial)
        values = {
            **self._task_context(),
            "study": str(self.directory.root.resolve()),
            "folder": str(self.directory.trial(trial).resolve()),
            "recipe": self._recipe_of(trial),
            "allow_leaks": self.plan.allow_leaks,
            "split": self.plan.split_of(trial),
            "judge": self._judge(trial.variant, self._recipe_of(trial)),
            "check": facts.check if facts.leak is None else None,
            "check_trained": self.plan.checks_trained(trial),
            "store": self._store is not None,
            "planned_flops": planned,
            "processes": self.how.processes,
            "travels": self.directory.mark_for_nodes() if self._get_executor().travels else None,
        }
        return Task("trial", trial.label, values, program_of(values["recipe"]))

    def _judge(self, variant: str, recipe: Mapping[str, Any]) -> dict[str, Any] | None:
        """The objective by which a variant with this recipe is judged, where it is not its own."""
        if not self.facts[variant].judge:
            return None
        base, own = (Recipe.parse(one).objective for one in (self._recipe(BASE), recipe))
        judge = judge_of(base, own)
        return None if judge is None else judge.to_dict()

    def _record_outcome(self, trial: Trial, answer: dict[str, Any]) -> bool:
        """Records how a trial ended; True when its result can be used."""
        for note in answer.get("notes", ()):
            self.watch.say(note)
        status = answer.get("status", "failed")
        if "record" in answer:
            write_record(self.directory.trial(trial), answer["record"])
        if status == "finished":
            self.failures.pop((trial.variant, trial.seed), None)
            result = self._read(trial)
            if result.problem is Problem.LEAK and self.facts[trial.variant].leak is None and result.evaluation is not None:
                self._handle_leak(trial.variant, str(result.evaluation.tainted), answer)
            return result.problem is None
        reason = str(answer.get("lost") or answer["reason"])
        self.watch.say(f"{trial.label}: {reason}")
        if status == "leak":
            self._handle_leak(trial.variant, reason, answer)
        elif status == "failed":
            self.failures[trial.variant, trial.seed] = reason
        return False

    def _handle_leak(self, variant: str, reason: str, answer: Mapping[str, Any]) -> None:
        """A leak in one trial holds for every seed: the variant's other trials are cancelled and evicted from the store.

        ``answer`` says whether the leak was found before training, in the compiled step, or in the trained model, and whether
        that step merely differs numerically from the eager one."""
        assert self._executor is not None
        in_step, differs = answer.get("before_training", False), answer.get("only_differs", False)
        facts = replace(self.facts[variant], leak=reason, leaks_in_step=in_step, step_differs=differs)
        self.facts[variant] = facts
        self._book().write(self.directory.variants_file)
        own = [trial for trial in self._all_trials() if trial.variant == variant]
        if self._store is not None:
            self._store.evict(own)
        if not self.plan.allow_leaks:
            labels = {trial.label for trial in own}
            cancelled = self._executor.withdraw(unless=lambda task: task.label not in labels)
            if cancelled:
                several = "1 trial" if len(cancelled) == 1 else f"{len(cancelled)} trials"
                what = f"{variant} leaks {LEAKS['in step' if in_step else 'trained']}"
                what = STEP_DIFFERS.format(it=variant) if differs else what
                self.watch.say(f"{what}: {several} not started.")

    def _cancel_changes(self, trial: Trial) -> None:
        """A failed run of the baseline makes every verdict invalid: only the baseline's other seeds run, for a failure rate."""
        assert self._executor is not None
        labels = {one.label for one in self.plan.trials() if one.variant == BASE}
        self._say_changes_skipped(trial, len(self._executor.withdraw(unless=lambda task: task.label in labels)))

    # -- the executor ----------------------------------------------------------------------------------------------------

    def _get_executor(self) -> Executor:
        """The executor, created when first needed, with as many processes as fit into memory."""
        if self._executor is None:
            self._executor = self._make_executor()
        self._executor.fit(max(facts.memory_bytes for facts in (*self.facts.values(), *self._point_facts.values())))
        return self._executor

    def _run_tasks(
        self, tasks: Sequence[Task], progress: ProgressTracker | None = None, trials: Mapping[str, Trial] | None = None
    ) -> Iterator[tuple[Task, dict[str, Any]]]:
        """Runs the tasks and yields each with its answer. On a stop signal running trials save their state; then it raises."""
        if not tasks:
            return
        executor, announced = self._get_executor(), False
        for event in executor.run(tasks):
            if self._stop.requested and not announced:
                announced = True
                self.watch.say(
                    "Stopping: running trials finish their step and save a checkpoint. Press Ctrl-C again to stop at once."
                )
                executor.stop()
            if isinstance(event, Ended):
                status = event.answer.get("status")
                if status == "refused":  # an error that the user has to fix
                    trial = trials.get(event.task.label) if trials is not None else None
                    if trial is None or trial.variant == BASE or event.answer.get("everywhere", True):
                        raise refusal(event.answer)
                    event.answer["status"] = status = "failed"  # a change that cannot run costs its own verdict only
                if status == "stopped":
                    self._stop.number = self._stop.number or int(event.answer.get("signal", 2))
                elif not ("lost" in event.answer and self._stop.requested):
                    yield event.task, event.answer
            elif progress is not None and trials is not None:
                progress.start(trials[event.task.label]) if isinstance(event, Started) else progress.report()
        if self._stop.requested:
            raise Interrupted(
                "Stopped; finished trials are stored, and the same command resumes from there.",
                signal_number=self._stop.number or 2,
            )
