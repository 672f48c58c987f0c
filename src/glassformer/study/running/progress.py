"""Progress of a running study: trials and steps done, time left, cost; from executor events and the trials' metrics files."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, final, runtime_checkable

from glassformer.foundation.errors import RunError
from glassformer.foundation.files import open_file
from glassformer.foundation.progress import Watcher, duration
from glassformer.runs.directory import RunDirectory
from glassformer.study.planning.plan import Trial
from glassformer.study.planning.variant_facts import Facts

TAIL = 4096  # bytes at the end of a metrics file: a few records


@dataclass(frozen=True)
class VariantProgress:
    """One variant: trials done, failed and planned so far, progress of running ones (0 to 1), the mean of the metric."""

    name: str
    done: int
    failed: int
    planned: int
    running: tuple[float, ...] = ()
    mean: float | None = None
    facts: Facts | None = None


@dataclass(frozen=True)
class StudyProgress:
    """A snapshot of the study. ``passed`` and ``left`` are seconds; ``left`` is None until it can be estimated."""

    rows: tuple[VariantProgress, ...]
    done: int
    total: int
    passed: float
    left: float | None
    busy: float
    """Compute hours so far, summed over the trials of this session."""


@runtime_checkable
class StudyWatcher(Watcher, Protocol):
    """A watcher that also shows the table of all variants."""

    def study_progress(self, progress: StudyProgress) -> None: ...


@final
@dataclass
class ProgressTracker:
    """Estimates the remaining time from work done (FLOPs) per second. ``mean`` returns a variant's metric so far."""

    watch: Watcher
    facts: Mapping[str, Facts]
    folder: Callable[[Trial], Path]
    mean: Callable[[str], float | None]
    clock: Callable[[], float] = time.monotonic
    trials: list[Trial] = field(default_factory=list)
    ended: dict[str, bool] = field(default_factory=dict)
    running: dict[str, Trial] = field(default_factory=dict)
    busy: float = 0.0

    def __post_init__(self) -> None:
        self._begun = self.clock()
        self._work_before = 0.0

    def begin(self, trials: Sequence[Trial], done: Mapping[str, bool]) -> None:
        """Adds trials; ``done``: those already finished, and whether they are usable."""
        known = {trial.label for trial in self.trials}
        self.trials += [trial for trial in trials if trial.label not in known]
        self.ended.update(done)
        self._work_before = self._work() if not self.busy else self._work_before
        self.report()

    def start(self, trial: Trial) -> None:
        self.running[trial.label] = trial
        self.report()

    def end(self, trial: Trial, *, usable: bool, seconds: float) -> None:
        self.running.pop(trial.label, None)
        self.ended[trial.label] = usable
        self.busy += seconds
        self.report()

    def report(self) -> None:
        progress = self.current()
        if isinstance(self.watch, StudyWatcher):
            self.watch.study_progress(progress)
        else:
            facts = {} if progress.left is None else {"time left": duration(progress.left)}
            self.watch.progress("trials", progress.done, progress.total, facts)

    def current(self) -> StudyProgress:
        shares = {label: self._share(trial) for label, trial in self.running.items()}
        rows = tuple(self._row(name, shares) for name in dict.fromkeys(trial.variant for trial in self.trials))
        passed = self.clock() - self._begun
        return StudyProgress(rows, len(self.ended), len(self.trials), passed, self._left(shares, passed), self.busy / 3600.0)

    def _row(self, name: str, shares: Mapping[str, float]) -> VariantProgress:
        own = [trial for trial in self.trials if trial.variant == name]
        ended = [self.ended[trial.label] for trial in own if trial.label in self.ended]
        running = tuple(shares[trial.label] for trial in own if trial.label in shares)
        return VariantProgress(name, len(ended), ended.count(False), len(own), running, self.mean(name), self.facts.get(name))

    def _left(self, shares: Mapping[str, float], passed: float) -> float | None:
        """Seconds left at the rate of this session; trials of earlier sessions do not count."""
        all_work = sum(self._size(trial) for trial in self.trials)
        done = self._work() + sum(shares[label] * self._size(trial) for label, trial in self.running.items())
        fresh = done - self._work_before
        return None if fresh <= 0.0 or passed <= 0.0 else passed * (all_work - done) / fresh

    def _work(self) -> float:
        return sum(self._size(trial) for trial in self.trials if trial.label in self.ended)

    def _size(self, trial: Trial) -> float:
        facts = self.facts.get(trial.variant)
        return float(facts.flops) if facts and facts.flops else 1.0

    def _share(self, trial: Trial) -> float:
        facts = self.facts.get(trial.variant)
        return min(1.0, last_step(self.folder(trial)) / facts.steps) if facts and facts.steps else 0.0


def last_step(folder: Path) -> int:
    """The last step a run has recorded, read from the end of its metrics; 0 before the first."""
    file = RunDirectory(folder).metrics_file
    try:
        with open_file(file) as stream:
            stream.seek(max(0, file.stat().st_size - TAIL))
            lines = stream.read().decode("utf-8", errors="replace").splitlines()
    except (OSError, RunError):
        return 0
    for line in reversed(lines):
        try:
            return int(json.loads(line)["step"])
        except (ValueError, KeyError, TypeError):  # the first or the last line may be incomplete
            continue
    return 0
