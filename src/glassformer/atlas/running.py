"""`atlas run`: the jobs of the protocol that the records lack, several side by side, for so many minutes -> lines of a portion.

Every finished run is written at once, so a killed process loses only the runs it was in. The next jobs follow from the records
alone: a second call goes on where the first one stopped, on another machine too. `atlas recheck` runs the first seed of every
cell again: equal values carry its word over to this version of the code; where they differ, the cell needs fresh runs.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from glassformer.atlas.cells import Cell, Place, base_rate, cells, curve_of, rate_of, undecided
from glassformer.atlas.protocol import BASELINE, Atlas, Job, Stage
from glassformer.atlas.records import Records, trial_line
from glassformer.foundation.config import fingerprint, override
from glassformer.foundation.errors import GlassformerError, UsageError
from glassformer.foundation.files import training_code_sha256
from glassformer.foundation.machine import cores
from glassformer.foundation.metrics import LOSS
from glassformer.foundation.plugins import loaded_plugins, plugin_checksums
from glassformer.foundation.progress import SILENT, Watcher
from glassformer.foundation.runtime import choose_runtime, environment
from glassformer.recipe import Recipe
from glassformer.runs.directory import RunDirectory
from glassformer.study.planning.plan import VALIDATION_SPLIT, Trial, recipe_fingerprint
from glassformer.study.planning.variant_data import prepare_each
from glassformer.study.planning.variant_facts import Facts
from glassformer.study.running.execution import gpus_to_share
from glassformer.study.running.executors.base import Ended, Executor, Task
from glassformer.study.running.executors.local import PER_GPU, LocalExecutor
from glassformer.study.running.trial_results import read_trial
from glassformer.study.running.trial_store import machine_of
from glassformer.study.statistics.evidence import Problem
from glassformer.training.step_acceleration import compiles_on

SHOW_EVERY = 15.0  # seconds
MANY = 1 << 10  # more processes than any machine takes
AHEAD = 4  # tasks that wait while all processes are busy
ROWS_AT_ONCE = 8  # begun on a GPU, beside the baseline, so that workers stay with rows that they have compiled
TIMED_ON = "docstrings"  # built in; steps take as long on any bytes
MORE = 1.2  # of the usual seconds of a run, so that it surely ends in time


@dataclass
class _Plan:
    """The runs of a row at a size in batches, each asked for when the one before it has ended: a rate curve, then the cells."""

    row: str
    size: str
    base: str
    batches: Iterator[list[Job]]
    tuned: bool = False
    """Whether a rate curve comes first, of which nothing is there."""
    after: int = 0
    """Of a further look: the seeds of the look before, by whose words it is planned."""
    left: set[str] = field(default_factory=set)
    """Labels of the tasks it waits for."""

    @property
    def key(self) -> tuple[str, str, str]:
        return self.row, self.size, self.base


@dataclass
class Portion:
    """One call. ``executor``: a factory, given a folder for logs. ``done``, ``failed``: runs so far."""

    atlas: Atlas
    records: Records
    out: TextIO
    executor: Callable[[Path], Executor]
    minutes: float | None = None
    plugins: Sequence[str] = ()
    watch: Watcher = SILENT
    base_rate: float | None = None
    """Of the baseline, times the size's; by default the best one of its rate curve in the records."""
    rates: Records | None = None
    """The records that learning rates come from, where they are others than those that say what was run."""
    done: int = 0
    failed: int = 0
    usual: dict[str, float] = field(default_factory=dict)
    """Seconds of a run of the size's steps, by size: a moving mean."""
    longest: dict[str, float] = field(default_factory=dict)
    """Seconds of the longest run, by size."""
    _begun: float = field(default_factory=time.monotonic)
    _facts: dict[tuple[str, str, str], dict[str, Any]] = field(default_factory=dict)
    """By row, size and base: the check report, and why it is not run."""
    _made: Executor | None = None
    _shown: float = 0.0
    _machine: str = ""
    _compiles: bool = False
    """Whether this machine's runs are compiled, whatever the recipe says: on a GPU."""
    _fingerprints: dict[Job, str] = field(default_factory=dict)
    _held: dict[tuple[str, str, str], list[tuple[_Plan, list[Job]]]] = field(default_factory=dict)
    """Jobs whose row is being inspected."""
    _jobs: dict[str, tuple[Job, _Plan]] = field(default_factory=dict)
    """What was handed to the executor, by label."""
    _prepared: set[str] = field(default_factory=set)
    """Texts whose data are in the cache."""
    _next: _Plan | None = None
    """The plan that is begun next."""
    _number: int = 0
    _late: bool = False
    """Whether a run was withdrawn, because it would not have ended in time."""
    _ran: set[str] = field(default_factory=set)
    """Programs of which a run has ended."""
    _tried_again: set[Job] = field(default_factory=set)
    _waits: dict[Place, tuple[tuple[str, int], dict[str, int]]] = field(default_factory=dict)
    """By place: the rows that wait for seeds, as known to a machine with so many records."""
    _folder: Path = Path()

    def run(self, cells: Sequence[tuple[str, str, str, str]] = (), seeds: int | None = None, rate: float | None = None) -> None:
        """The stages of the protocol, until nothing is left to do; or ``cells`` alone (row, text, size, base), with baselines.

        ``rate``: of the rows of ``cells``; by default what the records say.
        """
        with self._at_work():
            self._drive(self._cells(cells, seeds, rate) if cells else self._stages())

    def run_jobs(self, jobs: Sequence[Job]) -> None:
        """These jobs and no others."""
        rows: dict[tuple[str, str, str], list[Job]] = {}
        for job in jobs:
            rows.setdefault((job.row, job.size, job.base), []).append(job)
        with self._at_work():
            self._drive(_Plan(*key, iter([own])) for key, own in rows.items())

    def measure_speeds(self, rows: Sequence[str], size: str, base: str = "modern", rounds: int = 9) -> None:
        """Steps of these rows beside the baseline's, each pair with the device to itself, for what is left at equal time."""
        with self._at_work():
            jobs = {row: self.atlas.cell(row, TIMED_ON, size, 1.0, base, 1)[0] for row in rows}
            baseline = replace(next(iter(jobs.values())), row=BASELINE)
            self._prepare([baseline])
            values = {**self._context, "baseline": self._as_run(baseline), "lock": str(self._folder / "lock"), "rounds": rounds}
            tasks = [Task("speed", row, {**values, "recipe": self._as_run(job)}) for row, job in jobs.items()]
            for event in self._get_executor().run(tasks):
                if not isinstance(event, Ended):
                    continue
                answer, row = event.answer, event.task.label
                if answer.get("status") != "finished":
                    self.failed += 1
                    self.watch.say(f"{row} is not timed: {answer.get('lost') or answer.get('reason')}")
                    continue
                self.done += 1
                self._write({"k": "speed", "row": row, "size": size, "base": base, "machine": self._machine, **answer["speed"]})

    def open_jobs(self, machine: str) -> list[Job]:
        """What a machine of this name would run if no rate were at an edge; nothing is run."""
        self._machine = machine
        batches = (batch for plan in self._stages() for batch in plan.batches)
        return list(dict.fromkeys(job for batch in batches for job in self._missing(batch)))

    @contextmanager
    def _at_work(self) -> Iterator[None]:
        """A folder for the runs, and the name of the machine; afterwards no process is left."""
        self._folder = Path(tempfile.mkdtemp(prefix="glassformer-atlas-"))
        try:
            self._get_executor().warm_up(MANY)  # processes import torch while this one does
            self._name_machine()
            yield
        finally:
            if self._made is not None:
                self._made.close()
            self._made = None
            if not self.failed:
                shutil.rmtree(self._folder, ignore_errors=True)

    # -- what to run -------------------------------------------------------------------------------------------------------

    def _cells(self, cells: Sequence[tuple[str, str, str, str]], seeds: int | None, rate: float | None) -> Iterator[_Plan]:
        for place in dict.fromkeys(cell[1:] for cell in cells):
            several = seeds if self.atlas.protocol.sizes[place[1]].design == "paired" else None
            yield self._baseline(*place, several)
        for row, text, size, base in cells:
            own = self._rate(row, base) if rate is None else rate
            yield _Plan(row, size, base, iter([self.atlas.cell(row, text, size, own, base, seeds)]))

    def _stages(self) -> Iterator[_Plan]:
        """In the order of the protocol: baselines, then row by row its rate curve and its cells; or look by look further seeds.
        What an earlier stage has is not planned again: it may be under way, at a rate that is being tuned."""
        planned: set[tuple[str, str, str, str]] = set()
        for stage in self.atlas.protocol.stages:
            if stage.looks:
                paired = self.atlas.protocol.sizes[stage.size].design == "paired"
                for before, seeds in pairwise(self.atlas.protocol.looks):
                    for row in [*([BASELINE] if paired else []), *self.atlas.rows]:
                        yield _Plan(row, stage.size, stage.base, self._look(row, stage, before, seeds), after=before)
            if BASELINE in stage.tune:
                yield _Plan(BASELINE, stage.size, stage.base, self._curve(BASELINE, stage))
            rows = self.atlas.stage_rows(stage)
            for row in [BASELINE, *rows] if rows else ():
                texts = [text for text in stage.texts if (row, text, stage.size, stage.base) not in planned]
                planned |= {(row, text, stage.size, stage.base) for text in texts}
                if row == BASELINE:
                    yield from (self._baseline(text, stage.size, stage.base) for text in texts)
                elif texts:
                    own = stage.model_copy(update={"texts": texts})
                    tuned = row in stage.tune and curve_of(self.atlas, self.records, row, stage.base) is None
                    yield _Plan(row, stage.size, stage.base, self._row(row, own), tuned)

    def _baseline(self, text: str, size: str, base: str, seeds: int | None = None) -> _Plan:
        """Where other code has run it: one seed, and the others only if its bits are not the same."""

        def batches() -> Iterator[list[Job]]:
            jobs = self.atlas.cell(BASELINE, text, size, self._base_rate(base), base, seeds)
            if self._elsewhere(jobs):
                yield jobs[:1]
                stands = len(self.records.alike(self._machine, text, size, base)) > 1
                found = "the values of earlier code, whose records stand" if stands else "other values than with earlier code"
                self.watch.say(f"The baseline on {text} at {size} has {found}.")
            yield jobs

        return _Plan(BASELINE, size, base, batches())

    def _row(self, row: str, stage: Stage) -> Iterator[list[Job]]:
        if row in stage.tune:
            yield from self._curve(row, stage)
        rate = self._rate(row, stage.base)
        yield [job for text in stage.texts for job in self.atlas.cell(row, text, stage.size, rate, stage.base)]

    def _look(self, row: str, stage: Stage, before: int, seeds: int) -> Iterator[list[Job]]:
        """So many seeds where the look before did not decide the row (of a paired baseline: any row). Runs of earlier code are
        added to where the row's first seed has their values now."""
        jobs: list[list[Job]] = []
        for text in stage.texts:
            found = self._waiting((text, stage.size, stage.base))
            if any(found[name] == before for name in (found if row == BASELINE else found.keys() & {row})):
                rate = self._base_rate(stage.base) if row == BASELINE else self._rate(row, stage.base)
                jobs.append(self.atlas.cell(row, text, stage.size, rate, stage.base, seeds))
        if jobs and row != BASELINE:
            yield [job for own in jobs for job in (own[0], own[-1])]
        if jobs:
            yield [job for own in jobs for job in own]

    def _waiting(self, place: Place) -> dict[str, int]:
        """The rows of a place that more seeds may decide, and at how many they were judged: as far as they were run by this
        code, or code alike, at the rate that they should have."""
        now = (self._machine, len(self.records.trials))
        if place not in self._waits or self._waits[place][0] != now:
            found = undecided(self.atlas, self.records, place)
            own = {name: seeds for name, (group, seeds) in found.items() if self._machine in group.machines}
            rates = {name: self._rate(name, place[2]) for name in own}
            self._waits[place] = now, {name: seeds for name, seeds in own.items() if found[name][0].rate == rates[name]}
        return self._waits[place][1]

    def _curve(self, row: str, stage: Stage) -> Iterator[list[Job]]:
        """Every rate with the tuning seeds. A best rate at an edge extends the grid, twice at most."""
        centre = self.atlas.row(row).rate * (1.0 if row == BASELINE else self._base_rate(stage.base))
        yield self.atlas.curve(row, [centre * factor for factor in self.atlas.protocol.rates], stage.base)
        for _ in range(2):
            curve = curve_of(self.atlas, self.records, row, stage.base)
            if curve is not None and curve.next_rate is not None:
                yield self.atlas.curve(row, [curve.next_rate], stage.base)

    def _base_rate(self, base: str) -> float:
        return self.base_rate or base_rate(self.atlas, self.rates or self.records, base)

    def _rate(self, row: str, base: str) -> float:
        return rate_of(self.atlas, self.rates or self.records, row, base)

    # -- running -----------------------------------------------------------------------------------------------------------

    def _drive(self, plans: Iterator[_Plan]) -> None:
        """Keeps the machine full: plans are begun in order, and what follows in a begun one comes before a new one."""
        executor = self._get_executor()
        self._feed(plans)
        for event in executor.run(()):
            if isinstance(event, Ended):
                self._ended(event.task, event.answer)
            if self.done and executor.withdraw(unless=lambda task: not self._is_late(task)) and not self._late:
                self._late = True
                self.watch.say("Time is up: no run is started that would not end in time. The same command goes on.")
            if not self._late:
                self._feed(plans)

    def _feed(self, plans: Iterator[_Plan]) -> None:
        """Begins plans while fewer than a few tasks wait; on a GPU a few rows, and others when all of these are inspected."""
        while True:
            enough = self._get_executor().waiting >= AHEAD
            if self._compiles:
                rows = sum(row != BASELINE for row, *_ in self._rows_begun())
                enough = rows >= ROWS_AT_ONCE and (enough or bool(self._held))
            if enough:
                return
            self._next = self._next or next(plans, None)
            if self._next is None or self._must_wait(self._next):
                return
            plan, self._next = self._next, None
            self._advance(plan, first=False)

    def _rows_begun(self) -> set[tuple[str, str, str]]:
        return {plan.key for _, plan in self._jobs.values()} | self._held.keys()

    def _must_wait(self, plan: _Plan) -> bool:
        """Everything waits for the baseline's rate, rows for the answer whether earlier baselines stand, and further looks for
        the words of the look before."""
        held = (job for waiting in self._held.values() for _, jobs in waiting for job in jobs)
        for job in (*(job for job, _ in self._jobs.values()), *held):
            if (job.row, job.base) == (BASELINE, plan.base):
                is_first = job.seed == self.atlas.seeds(BASELINE, job.size)[0] and self._elsewhere([job])
                if job.area == "tuning" or (plan.row != BASELINE and is_first and not plan.tuned):
                    return True
            if job.area == "tuning" and (job.row, job.base) == (plan.row, plan.base):  # its rate is not known yet
                return True
            concerned = plan.row in (BASELINE, job.row) or job.row == BASELINE
            concerned &= (job.size, job.base, job.area) == (plan.size, plan.base, "trial")
            if concerned and job.seed < self.atlas.seeds(job.row, job.size)[0] + plan.after:
                return True
        return False

    def _advance(self, plan: _Plan, *, first: bool) -> None:
        """Hands the next batch of a plan to the executor that has not been run, after the inspection of its row. ``first``:
        before what waits there, where the plan was begun earlier."""
        for batch in plan.batches:
            jobs = self._missing(batch)
            if not jobs:
                continue
            self._prepare(jobs)
            if plan.key in self._facts:
                self._hand(plan, jobs, first=first)
            elif plan.key in self._held:
                self._held[plan.key].append((plan, jobs))
            else:
                self._held[plan.key] = [(plan, jobs)]
                task = Task("inspect", "/".join(plan.key), {**self._context, "recipe": self._recipe(jobs[0])})
                self._get_executor().add([task])
            return

    def _hand(self, plan: _Plan, jobs: Sequence[Job], *, first: bool = True) -> None:
        if self._facts[plan.key]["leak"] is not None:
            return
        tasks = []
        for job in jobs:
            self._number += 1
            label = f"{self._number}"
            self._jobs[label] = (job, plan)
            plan.left.add(label)
            tasks.append(self._task(label, job))
        self._get_executor().add(tasks, first=first)

    def _ended(self, task: Task, answer: dict[str, Any]) -> None:
        if task.kind == "inspect":
            row, size, base = task.label.split("/")
            held = self._held.pop((row, size, base))
            self._inspected(held[0][1][0], answer)
            for plan, jobs in reversed(held):
                self._hand(plan, jobs)
            return
        job, plan = self._jobs.pop(task.label)
        self._end(task, job, plan, answer)
        plan.left.discard(task.label)
        if not plan.left and self._facts[plan.key]["leak"] is None:
            self._advance(plan, first=True)

    def _missing(self, batch: Sequence[Job]) -> list[Job]:
        """The jobs of a batch that have to be run. A curve, or a row's runs on a text, is made by one code; a rate curve may be
        of any, a row of code whose baseline has the same bits, and runs are added up where the row's own have them too."""
        there: dict[tuple[Job, str], set[str]] = {}
        for one in self.records.trials.values():
            there.setdefault((one.job, one.recipe), set()).add(one.machine)
        left: list[Job] = []
        for text in dict.fromkeys(job.text for job in batch):
            own = [job for job in batch if job.text == text]
            ran = [there.get((job, self._fingerprint(job)), set()) for job in own]
            same = frozenset({self._machine})
            if own[0].area == "trial":
                place = (text, own[0].size, own[0].base)
                alike = self.records.alike(self._machine, *place)
                ran = [machines & alike for machines in ran]
                same = alike & self.records.alike(self._machine, *place, own[0].row)
            if not set.intersection(*ran):
                left += [job for job, machines in zip(own, ran) if not machines & same]
        return left

    def _elsewhere(self, jobs: Sequence[Job]) -> bool:
        """Whether other code of this kind of machine has run one of these jobs."""
        kind = self.records.kind(self._machine)
        wanted = {(job, self._fingerprint(job)) for job in jobs}
        return any(
            (one.job, one.recipe) in wanted and one.machine != self._machine and self.records.kind(one.machine) == kind
            for one in self.records.trials.values()
        )

    def _fingerprint(self, job: Job) -> str:
        """Of the recipe without its seed."""
        about = replace(job, seed=0, area="trial")
        if about not in self._fingerprints:
            self._fingerprints[about] = recipe_fingerprint(self.atlas.recipe(about))[:12]
        return self._fingerprints[about]

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._begun

    def _is_late(self, task: Task) -> bool:
        """Whether a task that waits would not end in time, by what runs of its size and steps took. The first of a program may
        take as long as the longest one did, and no row is inspected for a run or two."""
        if self.minutes is None:
            return False
        left = 60.0 * self.minutes - self.seconds
        if task.label not in self._jobs:  # an inspection
            return left < 2.0 * max(self.longest.values(), default=0.0)
        job = self._jobs[task.label][0]
        usual = MORE * self.usual.get(job.size, max(self.usual.values(), default=0.0)) * self.atlas.row(job.row).steps
        return left < (usual if task.program in self._ran else max(usual, self.longest.get(job.size, 0.0)))

    def _get_executor(self) -> Executor:
        if self._made is None:
            self._made = self.executor(self._folder / "logs")
        return self._made

    def _prepare(self, jobs: Sequence[Job]) -> None:
        """The data of texts that were not met before, once, so that workers find them in the cache."""
        new = {job.text: job for job in jobs if job.text not in self._prepared}
        if new:
            self._get_executor().warm_up(MANY)  # processes start while texts are read
            prepare_each({job.label: Recipe.parse(self.atlas.recipe(job)) for job in new.values()}, self.watch)
            self._prepared |= new.keys()

    def _inspected(self, job: Job, answer: dict[str, Any]) -> None:
        """Cost and checks of a row."""
        if answer.get("status") != "finished":  # the other rows go on
            self._set_aside(job, answer)
            return
        facts = Facts(recipe="", data="", documents="").inspected(answer)
        self._facts[job.row, job.size, job.base] = {"leak": facts.leak, "check": facts.check}
        about = {"row": job.row, "size": job.size, "base": job.base, "machine": self._machine}
        matched = {"matched": self.atlas.matched(job.row, job.size, job.base), "leak": facts.cheats or None}
        self._write({"k": "variant", **about, "parameters": facts.parameters, "step_flops": facts.step_flops, **matched})

    @property
    def _context(self) -> dict[str, Any]:
        return {"cwd": os.getcwd(), "plugins": list(self.plugins), "recheck": False}

    def _recipe(self, job: Job) -> dict[str, Any]:
        return Recipe.parse(self.atlas.recipe(job)).to_dict()

    def _as_run(self, job: Job) -> dict[str, Any]:
        """The recipe of a job as it is run on this machine."""
        compiled = {"training.compile": True} if self._compiles else {}
        return override(self._recipe(job), {"evaluation.while_training": False, **compiled})

    def _task(self, label: str, job: Job) -> Task:
        first = job.area == "trial" and job.seed == self.atlas.seeds(job.row, job.size)[0]
        values = {
            **self._context,
            "study": str(self._folder),
            "folder": str(self._folder / label),
            "recipe": self._as_run(job),
            "allow_leaks": False,
            "split": VALIDATION_SPLIT,
            "check": self._facts[job.row, job.size, job.base]["check"],
            "check_trained": first and job.text == self.atlas.protocol.tuning_text,
            "store": False,
            "planned_flops": 0.0,
            "travels": None,
        }
        return Task("trial", label, values, self._program(values["recipe"]))

    def _program(self, recipe: dict[str, Any]) -> str:
        """What is compiled: the network and its loss on the shapes of a batch. Rates, steps, optimizers and texts (bytes, all
        of them) are outside, so rulers, most placebos and rows of training share the baseline's."""
        shapes = ("batch_size", "accumulate", "label_smoothing", "precision")
        return fingerprint([recipe["model"], recipe["objective"], [recipe["training"].get(key) for key in shapes]])[:12]

    def _end(self, task: Task, job: Job, plan: _Plan, answer: dict[str, Any]) -> None:
        """Writes the record of a run, and removes its folder. One that failed by an error has none."""
        status, seconds = answer.get("status", "lost"), float(answer.get("seconds", 0.0))
        folder = Path(task.values["folder"])
        outcome: dict[str, Any] = {"values": None, "documents": "", "problem": Problem.DIVERGED.value}
        if status == "leak":
            outcome["problem"] = (Problem.STEP_DIFFERS if answer.get("only_differs") else Problem.LEAK).value
            self.watch.say(f"{job.label}: {answer['reason']}")
        if status == "finished":
            try:
                outcome = self._outcome(job, folder)
            except (GlassformerError, OSError, ValueError) as error:  # its files are damaged: the others go on
                status, answer = "failed", {"reason": str(error)}
        if status not in ("finished", "diverged", "leak"):
            self._once_more(job, plan, answer)
            return
        against = self._fingerprint(replace(job, row=BASELINE, area="trial", rate=self._base_rate(job.base)))
        about = {"recipe": self._fingerprint(job), "against": against, "machine": self._machine}
        self._write(trial_line(job, **about, seconds=round(seconds, 2), **outcome))
        shutil.rmtree(folder, ignore_errors=True)
        self.done += 1
        self._ran.add(task.program)
        each = seconds / self.atlas.row(job.row).steps
        self.usual[job.size] = 0.8 * self.usual.get(job.size, each) + 0.2 * each
        self.longest[job.size] = max(self.longest.get(job.size, 0.0), seconds)
        now = self.seconds
        if now - self._shown > SHOW_EVERY:
            self._shown = now
            self.watch.say(f"{now:.0f} s: {self.done} runs, the last one {job.label} ({seconds:.1f} s).")

    def _once_more(self, job: Job, plan: _Plan, answer: dict[str, Any]) -> None:
        """A failed run is tried a second time: without a baseline, say, no row of its text would get a word."""
        if job in self._tried_again:
            self._set_aside(job, answer)
            return
        self._tried_again.add(job)
        self.watch.say(f"{job.label} failed and is tried again: {answer.get('lost') or answer.get('reason')}")
        self._hand(plan, [job])

    def _set_aside(self, job: Job, answer: dict[str, Any]) -> None:
        """Says why a row or a run gave nothing; the row is not run any more in this portion."""
        self.failed += 1
        reason = str(answer.get("lost") or answer.get("reason"))
        self._facts[job.row, job.size, job.base] = {"leak": reason, "check": None}
        self.watch.say(f"{job.label} is set aside: {reason}")
        key = (job.row, job.size, job.base)
        for task in self._get_executor().withdraw(unless=lambda task: self._plan_key(task) != key):
            self._jobs.pop(task.label)

    def _plan_key(self, task: Task) -> tuple[str, str, str] | None:
        return self._jobs[task.label][1].key if task.label in self._jobs else None

    def _outcome(self, job: Job, folder: Path) -> dict[str, Any]:
        """Values by document, and the text they are of, whose line is written when it is first met."""
        result = read_trial(folder, Trial(job.row, job.seed, {}, ""), LOSS)
        data = RunDirectory(folder).read_environment("data")["data"]
        assert result.units is not None
        assert result.evaluation is not None
        units = result.units[LOSS.name]
        weights = [int(weight) for weight in units.weights]
        documents = fingerprint([data["sha256"], weights])[:12]
        if documents not in self.records.texts:
            about = {"text": job.text, "documents": documents, "data": data["sha256"], "python": platform.python_version()}
            self._write({"k": "text", **about, "unit": result.evaluation.unit, "weights": weights})
        rate = result.logged.get("tokens_per_second")
        problem = None if result.problem is None else result.problem.value
        values = {"values": units.values, "documents": documents, "problem": problem}
        return {**values, "tokens_per_second": None if rate is None else round(rate)}

    def _name_machine(self) -> None:
        """What runs of one comparison must share: the code that trains, plugins, torch and the kind of device."""
        runtime = choose_runtime(device="auto", precision="auto", threads=1)
        machine = {key: value for key, value in machine_of(environment(runtime)).items() if key not in ("threads", "cpu")}
        plugins = list(plugin_checksums(loaded_plugins()))
        self._compiles = compiles_on(runtime.device)
        how = {"compiled": True} if self._compiles else {}
        about = {**machine, "device": runtime.device.type, **how, "code": training_code_sha256()[:16], "plugins": plugins}
        self._machine = fingerprint(about)[:12]
        self._write({"k": "machine", "id": self._machine, "about": about})

    def _write(self, line: dict[str, Any]) -> None:
        if self.records.include(line, "this portion") or line["k"] != "trial":
            self.out.write(json.dumps(line, separators=(",", ":"), ensure_ascii=False) + "\n")
            self.out.flush()


def local_executor(jobs: int | None, logs: Path) -> Executor:
    """Worker processes: one per core, or with GPUs as many as share them well; each with so many runs at a time."""
    gpus, free = gpus_to_share() if choose_runtime(device="auto", precision="auto").device.type == "cuda" else ([], 0)
    return LocalExecutor(jobs or (min(cores(), PER_GPU * len(gpus)) if gpus else cores()), logs=logs, gpus=gpus, gpu_bytes=free)


@dataclass(frozen=True)
class Rechecked:
    """``largest``: the largest difference of a document's loss between then and now; None where nothing came out."""

    cell: str
    word: str
    largest: float | None
    command: str

    @property
    def sentence(self) -> str:
        if self.largest is None:
            return f"{self.word} before; no run came out now. {self.command}"
        if self.largest == 0.0:
            return f"equal values, the word {self.word} stands."
        return f"values differ by up to {self.largest:.5f}, so {self.word} needs fresh runs: {self.command}"

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "sentence": self.sentence}


def recheck(
    atlas: Atlas,
    records: Records,
    out: TextIO,
    executor: Callable[[Any], Executor],
    *,
    rows: Sequence[str] = (),
    minutes: float | None = None,
    watch: Watcher = SILENT,
) -> list[Rechecked]:
    """Runs one seed per cell that has runs (of ``rows`` alone, if given), and compares its values by document."""
    wanted = [cell for cell in cells(atlas, records) if cell.group is not None and (not rows or cell.row.name in rows)]
    if not wanted:
        what = f"{', '.join(rows)} has no runs" if rows else "The records have no runs"
        raise UsageError(f"{what}, so there is nothing to recheck; see `glassformer atlas list`.", reason="nothing-to-recheck")
    fresh = Records()
    portion = Portion(atlas, fresh, out, executor, minutes=minutes, watch=watch, rates=records)
    jobs = [cell.group.runs[0].job for cell in wanted if cell.group is not None]
    places = dict.fromkeys((job.text, job.size, job.base) for job in jobs)
    runs = [records.select(row=BASELINE, text=text, size=size, base=base, area="trial")[:1] for text, size, base in places]
    portion.run_jobs([*(one.job for own in runs for one in own), *jobs])  # the baselines say whether other code is alike
    return [_compared(cell, fresh) for cell in wanted]


def _compared(cell: Cell, fresh: Records) -> Rechecked:
    assert cell.group is not None
    before = cell.group.runs[0]
    now = next((one for one in fresh.trials.values() if one.job == before.job), None)
    largest = None
    if now is not None and now.values is not None and before.values is not None and now.values.shape == before.values.shape:
        largest = float(np.abs(now.values - before.values).max())
    elif now is not None and now.problem == before.problem and now.values is before.values is None:
        largest = 0.0
    return Rechecked(f"{cell.row.name}, {cell.text}, {cell.size}", cell.word, largest, cell.command)
