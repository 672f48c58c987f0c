"""Where and how the trials of a study run (``Execution``), and the executor for it."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from glassformer.foundation.errors import UsageError
from glassformer.foundation.machine import cores
from glassformer.foundation.progress import SILENT, Watcher
from glassformer.foundation.runtime import choose_device
from glassformer.recipe import Recipe
from glassformer.runs.callbacks import Callback
from glassformer.study.directory import StudyDirectory
from glassformer.study.planning.plan import StudyPlan
from glassformer.study.running.executors.base import Executor, InlineExecutor
from glassformer.study.running.executors.local import PER_GPU, LocalExecutor
from glassformer.training.parallel.launch import number_of_processes
from glassformer.training.parallel.tree import is_power_of_two

On = Literal["local", "ray", "slurm", "inline"]
Baseline = Literal["paired", "bank"]


@dataclass(frozen=True)
class Execution:
    """Where and how the trials of a study run; the arguments of ``compare`` that are not the plan's."""

    on: On = "local"
    jobs: int | None = None
    address: str | None = None
    gpus_per_trial: float | None = None
    processes_per_trial: int | None = None
    partition: str | None = None
    hours_per_trial: float = 4.0
    minutes: float | None = None
    store: bool = True
    baseline: Baseline = "paired"
    plugins: Sequence[Path | str] = ()
    callbacks: Sequence[Callback | str] = ()
    watch: Watcher = SILENT
    begun: float = field(default_factory=time.monotonic, compare=False)

    @property
    def processes(self) -> int:
        """Of one trial: as given, or one for each of its GPUs."""
        return self.processes_per_trial or max(1, int(self.gpus_per_trial or 1))

    def at_its_turn(self) -> Execution:
        """For one of several studies: what is left of the minutes that all of them share."""
        if self.minutes is None:
            return self
        return replace(self, minutes=max(1e-3, self.minutes - (time.monotonic() - self.begun) / 60.0))

    def __post_init__(self) -> None:
        if self.on not in ("local", "ray", "slurm", "inline"):
            raise UsageError(f"--on {self.on} is unknown; use local, ray, slurm or inline.", reason="bad-place")
        if self.jobs is not None and self.jobs < 1:
            raise UsageError(f"--jobs {self.jobs} must be 1 or more.", reason="bad-jobs")
        if self.on != "ray" and self.address is not None:
            raise UsageError("--address works only with --on ray; add it.", reason="not-on-ray")
        if self.on not in ("ray", "slurm") and self.gpus_per_trial is not None:
            raise UsageError("--gpus-per-trial works only with --on ray or slurm; add it.", reason="not-on-cluster")
        if self.processes_per_trial is not None:
            number_of_processes(self.processes_per_trial)
            if self.gpus_per_trial and self.gpus_per_trial not in (1, self.processes_per_trial):
                raise UsageError(
                    f"--gpus-per-trial {self.gpus_per_trial:g} and --processes {self.processes_per_trial} contradict: "
                    "a process has one GPU, or all of a trial share one; drop one of the two.",
                    reason="processes-and-gpus",
                )
        elif self.gpus_per_trial is not None and not 0 <= self.gpus_per_trial <= 1:
            gpus = float(self.gpus_per_trial)
            if not (gpus.is_integer() and is_power_of_two(int(gpus))):  # else the plan's training.pieces would be refused
                raise UsageError(
                    f"--gpus-per-trial {gpus:g} must be a power of two, as each GPU has a process; "
                    "use 1, 2, 4 or 8, or with --on ray a fraction below 1.",
                    reason="bad-gpus-per-trial",
                )
        if self.on != "slurm" and self.partition is not None:
            raise UsageError("--partition works only with --on slurm; add it.", reason="not-on-slurm")
        if self.minutes is not None and not self.minutes > 0:
            raise UsageError(f"--minutes {self.minutes:g} must be more than 0.", reason="bad-minutes")


def inline_executor() -> Executor:
    from glassformer.study.running.perform_task import perform

    return InlineExecutor(perform)


def make_executor(how: Execution, plan: StudyPlan, recipe: Recipe, directory: StudyDirectory) -> Executor:
    """Ray tasks, jobs of SLURM, or worker processes: one per core; with GPUs, as many as share them well."""
    device = recipe.training.device
    if how.on == "slurm":
        from glassformer.study.running.executors.slurm import SlurmExecutor

        return SlurmExecutor(
            directory.logs / "slurm",
            jobs=how.jobs,
            gpus_per_trial=how.gpus_per_trial,
            cpus=how.processes,
            partition=how.partition,
            hours=how.hours_per_trial,
        )
    if how.on == "ray":
        from glassformer.study.running.executors.ray import RayExecutor

        share = 0.0 if device == "cpu" else how.gpus_per_trial
        return RayExecutor(address=how.address, jobs=how.jobs, gpus_per_trial=share, cpus=how.processes)
    gpus, free_bytes = gpus_to_share() if device in ("auto", "cuda") and choose_device("auto").type == "cuda" else ([], 0)
    if how.processes > 1 and gpus:  # each trial has GPUs of its own; with fewer than its processes it shares all of them
        gpus = [
            ",".join(gpus[at : at + how.processes]) for at in range(0, max(1, len(gpus) - how.processes + 1), how.processes)
        ]
    default = min(cores(), PER_GPU * len(gpus)) if gpus else cores()
    if how.processes > 1:
        default = len(gpus) or max(1, cores() // how.processes)
    trials = max(len(plan.variants) * max(plan.all_looks), len(plan.tuning_trials()))
    return LocalExecutor(min(how.jobs or default, trials), logs=directory.logs, gpus=gpus, gpu_bytes=free_bytes)


def gpus_to_share() -> tuple[list[str], int]:
    """The GPUs to share, as CUDA names them, and the free bytes of the one that has least."""
    import torch

    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    gpus = visible.split(",") if visible else [str(number) for number in range(torch.cuda.device_count())]
    return gpus, min((torch.cuda.mem_get_info(number)[0] for number in range(len(gpus))), default=0)
