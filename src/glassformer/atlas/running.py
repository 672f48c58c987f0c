"""`atlas run`: the jobs of the protocol that the records lack, several side by side, for so many minutes -> lines of a portion.

Every finished run is written at once, so a killed process loses only the runs it was in. The next jobs follow from the records
alone: a second call goes on where the first one stopped, on another machine too.
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
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TextIO

from glassformer.atlas.cells import base_rate, curve_of, rate_of
from glassformer.atlas.protocol import BASELINE, Atlas, Job, Stage
from glassformer.atlas.records import Records, trial_line
from glassformer.foundation.config import fingerprint
from glassformer.foundation.files import training_code_sha256
from glassformer.foundation.machine import cores
from glassformer.foundation.metrics import LOSS
from glassformer.foundation.plugins import loaded_plugins, plugin_checksums
from glassformer.foundation.progress import SILENT, Watcher
from glassformer.foundation.runtime import choose_runtime, environment
from glassformer.recipe import Recipe
from glassformer.runs.directory import RunDirectory
from glassformer.study.compare import gpus_to_share
from glassformer.study.planning.plan import VALIDATION_SPLIT, Trial, recipe_fingerprint
from glassformer.study.planning.variant_data import prepare_each
from glassformer.study.planning.variant_facts import Facts
from glassformer.study.running.executors.base import Ended, Executor, Task
from glassformer.study.running.executors.local import PER_GPU, LocalExecutor
from glassformer.study.running.trial_results import read_trial
from glassformer.study.running.trial_store import machine_of
from glassformer.study.statistics.evidence import Problem

SHOW_EVERY = 15.0  # seconds


@dataclass(frozen=True)
class _Tuned:
    """A row of a stage whose rate is looked for, and the rates that were asked for so far."""

    row: str
    stage: Stage
    rates: tuple[float, ...]


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
    longest: float = 0.0
    _begun: float = field(default_factory=time.monotonic)
    _facts: dict[tuple[str, str, str], dict[str, Any]] = field(default_factory=dict)
    """By row, size and base: the check report, and why it is not run."""
    _made: Executor | None = None
    _shown: float = 0.0
    _machine: str = ""
    _fingerprints: dict[Job, str] = field(default_factory=dict)
    _row_of: dict[str, tuple[str, str, str]] = field(default_factory=dict)
    _folder: Path = Path()

    def run(self, cells: Sequence[tuple[str, str, str, str]] = (), seeds: int | None = None, rate: float | None = None) -> None:
        """The stages of the protocol, until nothing is left to do; or ``cells`` alone (row, text, size, base), with baselines.

        ``rate``: of the rows of ``cells``; by default what the records say.
        """
        before = -1
        with self._at_work():
            while self.done > before:  # what a rate curve has changed is run in the next round
                before = self.done
                if not all(self._run(jobs) for jobs in (self._cells(cells, seeds, rate) if cells else self._stages())):
                    break

    def run_jobs(self, jobs: Sequence[Job]) -> None:
        """These jobs and no others."""
        with self._at_work():
            self._run(jobs)

    @contextmanager
    def _at_work(self) -> Iterator[None]:
        """A folder for the runs, and the name of the machine; afterwards no process is left."""
        self._folder = Path(tempfile.mkdtemp(prefix="glassformer-atlas-"))
        self._name_machine()
        try:
            yield
        finally:
            if self._made is not None:
                self._made.close()
            if not self.failed:
                shutil.rmtree(self._folder, ignore_errors=True)

    # -- what to run -------------------------------------------------------------------------------------------------------

    def _cells(self, cells: Sequence[tuple[str, str, str, str]], seeds: int | None, rate: float | None) -> Iterator[list[Job]]:
        jobs = []
        for row, text, size, base in cells:
            own = rate_of(self.atlas, self.rates or self.records, row, base) if rate is None else rate
            several = seeds if self.atlas.protocol.sizes[size].design == "paired" else None
            jobs += self.atlas.cell(BASELINE, text, size, self._base_rate(base), base, several)
            jobs += self.atlas.cell(row, text, size, own, base, seeds)
        yield list(dict.fromkeys(jobs))

    def _stages(self) -> Iterator[list[Job]]:
        """Stage by stage: rate curves, and the cells whose rate is known. The cells that wait for a curve come with the next
        stage, so that the machine stays full."""
        waiting: list[_Tuned] = []
        for stage in self.atlas.protocol.stages:
            tuned = [_Tuned(name, stage, self._rates_around(name, stage.base)) for name in stage.tune]
            known = [name for name in (BASELINE, *self.atlas.stage_rows(stage)) if name == BASELINE or name not in stage.tune]
            yield [
                *self._settled(waiting),
                *(job for one in tuned for job in self.atlas.curve(one.row, one.rates, stage.base)),
                *(job for name in known for job in self._cells_of(name, stage)),
            ]
            waiting += tuned
        while waiting:
            yield self._settled(waiting)

    def _settled(self, waiting: list[_Tuned]) -> list[Job]:
        """The cells of rows whose curve has its best rate inside, and one more rate of the others, twice at most."""
        jobs, left = [], []
        for one in waiting:
            curve = curve_of(self.atlas, self.records, one.row, one.stage.base)
            beyond = None if curve is None or len(one.rates) > len(self.atlas.protocol.rates) + 1 else curve.next_rate
            if beyond is not None:
                jobs += self.atlas.curve(one.row, [beyond], one.stage.base)
                left.append(replace(one, rates=(*one.rates, beyond)))
            elif one.row != BASELINE:
                jobs += self._cells_of(one.row, one.stage)
        waiting[:] = left
        return jobs

    def _cells_of(self, name: str, stage: Stage) -> list[Job]:
        """The runs of a row on the texts of a stage."""
        if not self.atlas.stage_rows(stage):
            return []
        rate = rate_of(self.atlas, self.rates or self.records, name, stage.base)
        return [job for text in stage.texts for job in self.atlas.cell(name, text, stage.size, rate, stage.base)]

    def _rates_around(self, name: str, base: str) -> tuple[float, ...]:
        centre = self.atlas.row(name).rate * (1.0 if name == BASELINE else self._base_rate(base))
        return tuple(centre * factor for factor in self.atlas.protocol.rates)

    def _base_rate(self, base: str) -> float:
        return self.base_rate or base_rate(self.atlas, self.rates or self.records, base)

    # -- running -----------------------------------------------------------------------------------------------------------

    def _run(self, jobs: Sequence[Job]) -> bool:
        """Runs the jobs that have no record. False when the time is up."""
        here = {(one.job, one.recipe) for one in self.records.trials.values() if one.machine == self._machine}
        left = [job for job in jobs if (job, self._fingerprint(job)) not in here]
        if not left:
            return True
        self._inspect(left)
        left = [job for job in left if self._facts[job.row, job.size, job.base]["leak"] is None]
        tasks = {f"{number}": job for number, job in enumerate(left)}
        self._row_of = {label: (job.row, job.size, job.base) for label, job in tasks.items()}
        executor, cancelled = self._get_executor(), 0
        for event in executor.run([self._task(label, job) for label, job in tasks.items()]):
            if isinstance(event, Ended):
                self._end(event.task, tasks[event.task.label], event.answer)
                if self._time_is_up():
                    cancelled += len(executor.withdraw(unless=lambda task: False))
        if cancelled:
            self.watch.say(f"Time is up: {cancelled} runs of this stage are not started. The same command goes on.")
        return not cancelled and not self._time_is_up()

    def _fingerprint(self, job: Job) -> str:
        """Of the recipe without its seed."""
        about = replace(job, seed=0, area="trial")
        if about not in self._fingerprints:
            self._fingerprints[about] = recipe_fingerprint(self.atlas.recipe(about))[:12]
        return self._fingerprints[about]

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._begun

    def _time_is_up(self) -> bool:
        return self.minutes is not None and self.seconds + self.longest > 60.0 * self.minutes

    def _get_executor(self) -> Executor:
        if self._made is None:
            self._made = self.executor(self._folder / "logs")
        return self._made

    def _inspect(self, jobs: Sequence[Job]) -> None:
        """Data of the texts, cost and checks of the rows; those of one size at once."""
        recipes = {job.label: Recipe.parse(self.atlas.recipe(job)) for job in {job.text: job for job in jobs}.values()}
        prepare_each(recipes, self.watch)  # once, so that workers find them in the cache
        unknown = {(job.row, job.size, job.base): job for job in jobs if (job.row, job.size, job.base) not in self._facts}
        tasks = {"/".join(key): job for key, job in unknown.items()}
        todo = [Task("inspect", label, {**self._context, "recipe": self._recipe(job)}) for label, job in tasks.items()]
        for event in self._get_executor().run(todo):
            if not isinstance(event, Ended):
                continue
            job = tasks[event.task.label]
            if event.answer.get("status") != "finished":  # the other rows go on
                self._set_aside(job, event.answer)
                continue
            facts = Facts(recipe="", data="", documents="").inspected(event.answer)
            self._facts[job.row, job.size, job.base] = {"leak": facts.leak, "check": facts.check}
            self._write(
                {
                    "k": "variant",
                    "row": job.row,
                    "size": job.size,
                    "base": job.base,
                    "machine": self._machine,
                    "parameters": facts.parameters,
                    "step_flops": facts.step_flops,
                    "matched": self.atlas.matched(job.row, job.size, job.base),
                    "leak": facts.cheats or None,
                }
            )

    @property
    def _context(self) -> dict[str, Any]:
        return {"cwd": os.getcwd(), "plugins": list(self.plugins), "recheck": False}

    def _recipe(self, job: Job) -> dict[str, Any]:
        return Recipe.parse(self.atlas.recipe(job)).to_dict()

    def _task(self, label: str, job: Job) -> Task:
        first = job.area == "trial" and job.seed == self.atlas.seeds(job.row, job.size)[0]
        values = {
            **self._context,
            "study": str(self._folder),
            "folder": str(self._folder / label),
            "recipe": self._recipe(job),
            "allow_leaks": False,
            "split": VALIDATION_SPLIT,
            "check": self._facts[job.row, job.size, job.base]["check"],
            "check_trained": first and job.text == self.atlas.protocol.tuning_text,
            "store": False,
            "planned_flops": 0.0,
            "travels": None,
        }
        return Task("trial", label, values)

    def _end(self, task: Task, job: Job, answer: dict[str, Any]) -> None:
        """Writes the record of a run, and removes its folder. One that failed by an error has none: it is tried again."""
        status, seconds = answer.get("status", "lost"), float(answer.get("seconds", 0.0))
        folder = Path(task.values["folder"])
        if status not in ("finished", "diverged", "leak"):
            self._set_aside(job, answer)
            return
        outcome: dict[str, Any] = {"values": None, "documents": "", "problem": Problem.DIVERGED.value}
        if status == "leak":
            outcome["problem"] = (Problem.STEP_DIFFERS if answer.get("only_differs") else Problem.LEAK).value
            self.watch.say(f"{job.label}: {answer['reason']}")
        if status == "finished":
            outcome = self._outcome(job, folder)
        against = self._fingerprint(replace(job, row=BASELINE, area="trial", rate=self._base_rate(job.base)))
        about = {"recipe": self._fingerprint(job), "against": against, "machine": self._machine}
        self._write(trial_line(job, **about, seconds=round(seconds, 2), **outcome))
        shutil.rmtree(folder, ignore_errors=True)
        self.done, self.longest = self.done + 1, max(self.longest, seconds)
        now = self.seconds
        if now - self._shown > SHOW_EVERY:
            self._shown = now
            self.watch.say(f"{now:.0f} s: {self.done} runs, the last one {job.label} ({seconds:.1f} s).")

    def _set_aside(self, job: Job, answer: dict[str, Any]) -> None:
        """Says why a row or a run gave nothing; the row is not run any more in this portion."""
        self.failed += 1
        reason = str(answer.get("lost") or answer.get("reason"))
        self._facts[job.row, job.size, job.base] = {"leak": reason, "check": None}
        self.watch.say(f"{job.label} is set aside: {reason}")
        executor = self._get_executor()
        executor.withdraw(
            unless=lambda task: task.kind != "trial" or self._row_of.get(task.label) != (job.row, job.size, job.base)
        )

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
        rate = result.tokens_per_second
        problem = None if result.problem is None else result.problem.value
        values = {"values": units.values, "documents": documents, "problem": problem}
        return {**values, "tokens_per_second": None if rate is None else round(rate)}

    def _name_machine(self) -> None:
        """What runs of one comparison must share: the code that trains, plugins, torch and the kind of device."""
        runtime = choose_runtime(device="auto", precision="auto", threads=1)
        machine = {key: value for key, value in machine_of(environment(runtime)).items() if key not in ("threads", "cpu")}
        plugins = list(plugin_checksums(loaded_plugins()))
        about = {**machine, "device": runtime.device.type, "code": training_code_sha256()[:16], "plugins": plugins}
        self._machine = fingerprint(about)[:12]
        self._write({"k": "machine", "id": self._machine, "about": about})

    def _write(self, line: dict[str, Any]) -> None:
        if self.records.include(line, "this portion") or line["k"] != "trial":
            self.out.write(json.dumps(line, separators=(",", ":"), ensure_ascii=False) + "\n")
            self.out.flush()


def local_executor(jobs: int | None, logs: Path, lanes: int = 1) -> Executor:
    """Worker processes: one per core, or with GPUs as many as share them well; each with so many runs at a time."""
    gpus, free = gpus_to_share() if choose_runtime(device="auto", precision="auto").device.type == "cuda" else ([], 0)
    return LocalExecutor(
        jobs or (min(cores(), PER_GPU * len(gpus)) if gpus else cores()), logs=logs, gpus=gpus, gpu_bytes=free, lanes=lanes
    )
