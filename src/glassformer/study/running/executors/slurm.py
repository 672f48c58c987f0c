"""Tasks as jobs of a SLURM cluster, through submitit: arrays of one core (and GPUs) each, queued again when preempted.

submitit is an optional extra and is imported only here. It starts our function on a node; what a task gave is read from our own
JSON file, never from its pickles, and whether a job is still there from ``squeue``: submitit would ask ``sacct``, which a
cluster without accounting does not answer. All nodes of such a cluster see the study's folder.
"""

from __future__ import annotations

import getpass
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, final

from glassformer.foundation.config import fingerprint
from glassformer.foundation.errors import MissingDependency, UsageError
from glassformer.foundation.files import read_json, write_json
from glassformer.foundation.machine import cores
from glassformer.study.running.executors.base import ATTEMPTS, Ended, Event, Executor, Started, Task, Waiting
from glassformer.study.running.executors.local import ONE_THREAD, POLL_SECONDS

WITHOUT_SLURM = "GLASSFORMER_SUBMITIT"
"""Set to ``local``, jobs are processes of this machine: the same code without a cluster, for a trial run and for tests."""
QUIET_SECONDS = 60.0
"""A job that left the queue has this long to show its answer: network disks are late."""
ASK_SECONDS = 5.0
"""Between two questions to the cluster."""
MOST_JOBS = 1000
"""Queued at a time. The usual limit of an array is 1,001."""
NEVER = ("PartitionTimeLimit", "PartitionNodeLimit", "PartitionConfig", "BadConstraints", "InvalidAccount", "InvalidQOS")
"""Reasons of waiting that do not pass."""


@dataclass
class _Job:
    task: Task
    job: Any
    attempt: int = 1
    started: bool = False
    since: float = field(default_factory=time.monotonic)
    gone_since: float | None = None


class _Queue:
    """The jobs of one name: which are still there, asked at most every ``ASK_SECONDS``."""

    def __init__(self, name: str) -> None:
        self._own = ["--name", name, "--user", getpass.getuser()]
        self._asked = self._answered = float("-inf")
        self._there: dict[str, str] = {}
        """Why a job waits, by its id."""

    def cancel_all(self) -> None:
        """Comes as SIGTERM, which lets a trial finish its step and save."""
        subprocess.run(["scancel", *self._own], check=False, capture_output=True)

    def has_lost(self, one: _Job) -> bool:
        """Whether the cluster has forgotten a job. Not known while it does not answer, or has not been asked since."""
        if time.monotonic() - self._asked > ASK_SECONDS:
            self._ask()
        waits_for = self._there.get(one.job.job_id)
        if waits_for in NEVER:
            raise UsageError(
                f"SLURM will not start these jobs: {waits_for}. `sinfo` lists what a partition allows; see --partition, --time "
                "(hours) and --gpus-per-trial.",
                reason="never-starts",
            )
        return waits_for is None and self._answered > one.since

    def _ask(self) -> None:
        self._asked = time.monotonic()
        answer = subprocess.run(
            ["squeue", *self._own, "--noheader", "--array", "--format", "%i %r"], check=False, capture_output=True, text=True
        )
        if answer.returncode == 0:
            self._answered = self._asked
            self._there = {job: " ".join(why) for job, *why in map(str.split, answer.stdout.splitlines())}


@final
class SlurmExecutor(Executor):
    """``folder``: for tasks, answers and logs, seen by all nodes. ``jobs``: how many run at once; None: as SLURM decides."""

    def __init__(
        self,
        folder: Path,
        *,
        jobs: int | None = None,
        gpus_per_trial: float | None = None,
        cpus: int = 1,
        partition: str | None = None,
        hours: float = 4.0,
    ) -> None:
        super().__init__()
        self.folder, cluster = folder, os.environ.get(WITHOUT_SLURM, "slurm")
        try:
            import submitit
        except ImportError as error:
            raise MissingDependency("--on slurm needs the package submitit: pip install 'glassformer[slurm]'.") from error
        if cluster == "slurm" and shutil.which("sbatch") is None:
            raise UsageError("--on slurm: there is no sbatch on this machine; start it on a login node.", reason="no-slurm")
        if gpus_per_trial is not None and gpus_per_trial != int(gpus_per_trial):
            raise UsageError(
                f"--gpus-per-trial {gpus_per_trial:g} must be a whole number with --on slurm, which does not divide a GPU.",
                reason="bad-gpus",
            )
        self._gpus = int(gpus_per_trial or 0)
        folder.mkdir(parents=True, exist_ok=True)
        name = f"glassformer-{fingerprint(str(folder.resolve()))[:8]}"
        self._submit = submitit.AutoExecutor(folder=folder / "submitit", cluster=cluster)
        self._submit.update_parameters(name=name, timeout_min=max(1, round(60 * hours)), cpus_per_task=cpus)
        self._most, self._queue = jobs or max(1, cores() // cpus), None
        if cluster != "local":
            self._most, self._queue = jobs or MOST_JOBS, _Queue(name)
            self._queue.cancel_all()  # of a driver that was killed: a trial goes on from where its job saved it
            own = {"partition": partition, "gpus_per_node": self._gpus or None}
            self._submit.update_parameters(
                slurm_setup=[f"export {name}={value}" for name, value in ONE_THREAD.items()],
                slurm_additional_parameters={"requeue": True},
                slurm_array_parallelism=self._most,
                **{f"slurm_{key}": value for key, value in own.items() if value is not None},
            )
        self._refusal = submitit.core.utils.FailedJobError
        self._running: list[_Job] = []

    @property
    def gpus(self) -> int:
        return self._gpus

    def _files(self, task: Task) -> tuple[Path, Path, Path]:
        """The task, the mark of its start and its answer."""
        place = self.folder / fingerprint([task.kind, task.label])[:24]
        return place.with_suffix(".task.json"), place.with_suffix(".started"), place.with_suffix(".answer.json")

    def run(self, tasks: Sequence[Task]) -> Iterator[Event]:
        self._waiting.extend(tasks)
        while self._waiting or self._running:
            room = self._most - len(self._running)
            if self._waiting and room > 0:
                self._start([self._waiting.popleft() for _ in range(min(room, len(self._waiting)))])
            news = list(self._news())
            yield from news
            if not news:
                time.sleep(POLL_SECONDS)
                yield Waiting()

    def _start(self, tasks: Sequence[Task]) -> None:
        for task in tasks:
            file, started, answer = self._files(task)
            for old in (started, answer):
                old.unlink(missing_ok=True)
            write_json(file, vars(task))
        try:
            jobs = self._submit.map_array(TrialJob(), [[str(file) for file in self._files(task)] for task in tasks])
        except self._refusal as error:
            raise UsageError(f"SLURM refused the jobs: {str(error).strip()}", reason="jobs-refused") from error
        self._running += [_Job(task, job) for task, job in zip(tasks, jobs)]

    def _news(self) -> Iterator[Event]:
        for one in list(self._running):
            _, started, answer = self._files(one.task)
            if not one.started and started.is_file():
                one.started = True
                yield Started(one.task)
            if answer.is_file() and (given := self._read(answer)) is not None:
                self._running.remove(one)
                if not one.started:
                    yield Started(one.task)
                yield Ended(one.task, given)
            elif one.job.done() if self._queue is None else self._queue.has_lost(one):
                one.gone_since = one.gone_since or time.monotonic()
                quiet = 0.0 if self._queue is None or self._stopping else QUIET_SECONDS
                if time.monotonic() - one.gone_since > quiet + POLL_SECONDS:
                    self._running.remove(one)
                    yield from self._lost(one)

    def _read(self, file: Path) -> dict[str, Any] | None:
        """An answer. None for a trial that was stopped and not by us: SLURM preempts it, or somebody cancelled its job. Either
        it is queued again, or it is lost."""
        answer: dict[str, Any] = read_json(file)
        if answer.get("status") != "stopped" or self._stopping:
            return answer
        file.unlink()
        return None

    def _lost(self, one: _Job) -> Iterator[Event]:
        """A job that ended without an answer is queued again; the trial goes on from its last checkpoint."""
        if self._stopping:
            yield Ended(one.task, {"status": "stopped", "reason": "Stopped.", "signal": 15})
        elif one.attempt < ATTEMPTS:
            self._start([one.task])
            self._running[-1].attempt = one.attempt + 1
        else:
            yield Ended(one.task, {"lost": f"its job was lost {ATTEMPTS} times (logs: {one.job.paths.stderr})"})

    def withdraw(self, unless: Callable[[Task], bool]) -> list[Task]:
        withdrawn = super().withdraw(unless)
        for one in [one for one in self._running if not one.started and not unless(one.task)]:
            one.job.cancel(check=False)
            self._running.remove(one)
            withdrawn.append(one.task)
        return withdrawn

    def stop(self) -> None:
        super().stop()
        self._cancel()

    def close(self) -> None:
        super().stop()
        self._cancel()
        self._running = []

    def _cancel(self) -> None:
        if self._queue is not None:
            self._queue.cancel_all()
            return
        for one in self._running:
            one.job.cancel(check=False)


class TrialJob:
    """What a node runs: reads the task, does it, writes the answer. submitit queues it again when its job is preempted."""

    def __call__(self, files: Sequence[str]) -> None:
        task, started, answer = (Path(file) for file in files)
        os.environ |= ONE_THREAD  # torch reads it when it is imported
        from glassformer.study.running.perform_task import perform

        started.touch()
        write_json(answer, perform(Task(**read_json(task)), own_process=True))

    def checkpoint(self, files: Sequence[str]) -> Any:
        from submitit.helpers import DelayedSubmission

        return DelayedSubmission(self, files)
