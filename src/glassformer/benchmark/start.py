"""Whole commands, each in a process of its own -> seconds from the command to its end, and ratios. Imports no torch.

``start``: a tiny recipe, or one of real size, trained with nothing kept and with what the time before kept, beside
``python -c "import torch"`` and nanoGPT's train.py. ``study``: a study to its verdict, beside as many runs one by one.
Wall and processor seconds are given; on a busy machine the processor's are the ones to compare.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

from glassformer.benchmark.nanogpt_command import nanogpt_command, nanogpt_loss, nanogpt_own_command
from glassformer.benchmark.nanogpt_folder import Texts
from glassformer.foundation.errors import GlassformerError
from glassformer.foundation.progress import SILENT, Watcher
from glassformer.runs.records import MetricsLog

IMPORT_TORCH, COLD, WARM, NANOGPT = 'python -c "import torch"', "train, nothing kept", "train, kept data and checks", "nanoGPT"
STUDY, ONE_BY_ONE, NANOGPT_RUNS = "study", "the same runs one by one", "as many nanoGPT runs"
TINY = {"model.width": 32, "model.layers": 2, "model.heads": 2, "model.context": 32, "training.batch_size": 8}
RECIPE = "docstrings-char"
Seconds = tuple[float, float]
"""On the wall, of the processor (all threads and children)."""


@dataclass(frozen=True)
class Work:
    """What is trained: a tiny model with one evaluation, or a recipe as it stands; ``changes`` are values of ``--set``."""

    steps: int
    recipe: str | None = None
    changes: tuple[str, ...] = ()

    @property
    def words(self) -> list[str]:
        """Of the command line, after the verb."""
        once: dict[str, int] = {"evaluation.every": self.steps, "checkpoint.every": self.steps, **TINY}
        values = {"training.steps": self.steps} | ({} if self.recipe else once)
        changes = [*(f"{key}={value}" for key, value in values.items()), *self.changes]
        return [self.recipe or RECIPE, *(word for change in changes for word in ("--set", change))]

    @property
    def settings(self) -> dict[str, Any]:
        changes = dict(change.split("=", 1) for change in self.changes)
        return {"recipe": self.recipe or RECIPE, "steps": self.steps, **({} if self.recipe else TINY), **changes}


@dataclass(frozen=True)
class Peer:
    """A nanoGPT folder; beside a recipe of ours it runs by its own ``config`` on our text, for ``steps`` (ours unless told)."""

    folder: Path
    config: str = ""
    steps: int | None = None
    texts_of: Callable[[str, tuple[str, ...]], Texts] = lambda recipe, changes: (b"", b"", 0)
    """The text of a recipe with its changes."""

    def train(self, work: Work, scratch: Path) -> Seconds:
        if work.recipe is None:
            return seconds_of(*nanogpt_command(self.folder, scratch, TINY, work.steps))
        texts = self.texts_of(work.recipe, work.changes)
        return seconds_of(*nanogpt_own_command(self.folder, scratch, self.config, texts, self.steps or work.steps))


def benchmark_start(work: Work, *, rounds: int, peer: Peer | None = None, watch: Watcher = SILENT) -> dict[str, Any]:
    """Seconds of a whole ``glassformer train``, cold and warm, beside ``import torch`` and nanoGPT; and the losses reached."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        programs: dict[str, Callable[[], Seconds]] = {
            IMPORT_TORCH: lambda: seconds_of([sys.executable, "-c", "import torch"], folder),
            COLD: lambda: _train(folder, work, cold=True),
            WARM: lambda: _train(folder, work, cold=False),
        }
        if peer is not None:
            programs[NANOGPT] = lambda: peer.train(work, folder / "nanogpt")
        found = _in_turns(programs, rounds, watch)
        losses = _losses(folder / "run") if work.recipe else {}
        if peer is not None and work.recipe:
            losses[NANOGPT] = nanogpt_loss(folder / "nanogpt", peer.config)
    return _document("start", found, IMPORT_TORCH, work.settings) | {"validation_loss": losses}


def benchmark_study(
    work: Work, *, vary: str, seeds: int, rounds: int, peer: Peer | None = None, watch: Watcher = SILENT
) -> dict[str, Any]:
    """Seconds of a study of 2 variants by ``seeds``, empty store, beside one run times their number."""
    runs = 2 * seeds
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)

        def study() -> Seconds:
            shutil.rmtree(folder / "study", ignore_errors=True)
            words = ["compare", *work.words, "--vary", vary, "--seeds", str(seeds), "--no-store", "--out", "study", "--quiet"]
            return seconds_of(_glassformer(*words), folder, cache=folder / "cache")

        def times_the_runs(one: Seconds) -> Seconds:
            return runs * one[0], runs * one[1]

        programs: dict[str, Callable[[], Seconds]] = {
            STUDY: study,
            ONE_BY_ONE: lambda: times_the_runs(_train(folder, work, cold=False)),
        }
        if peer is not None:
            programs[NANOGPT_RUNS] = lambda: times_the_runs(peer.train(work, folder / "nanogpt"))
        found = _in_turns(programs, rounds, watch)
    return _document("study", found, STUDY, {**work.settings, "variants": 2, "vary": vary, "seeds": seeds})


def seconds_of(command: list[str], folder: Path, *, cache: Path | None = None) -> Seconds:
    """Runs a command to its end. A command that fails is a sentence with its last words."""
    before, began = os.times(), time.perf_counter()
    variables = {**os.environ} | ({} if cache is None else _caches(cache))
    answer = subprocess.run(command, cwd=folder, env=variables, capture_output=True, text=True, check=False)
    wall, after = time.perf_counter() - began, os.times()
    if answer.returncode != 0:
        last = (answer.stderr or answer.stdout).strip().rpartition("\n")[2]
        raise GlassformerError(f"{' '.join(command[1:4])} ended with {answer.returncode}: {last}")
    spent = after.children_user - before.children_user + after.children_system - before.children_system
    return wall, spent


def _caches(folder: Path) -> dict[str, str]:
    """Of ours, of torch's compiler and of Triton: all that a process finds of an earlier one."""
    own = {"GLASSFORMER_CACHE": "glassformer", "TORCHINDUCTOR_CACHE_DIR": "inductor", "TRITON_CACHE_DIR": "triton"}
    return {name: str(folder / place) for name, place in own.items()}


def _train(folder: Path, work: Work, *, cold: bool) -> Seconds:
    shutil.rmtree(folder / "run", ignore_errors=True)
    if cold:
        shutil.rmtree(folder / "cache", ignore_errors=True)
    cache = folder / "cache"
    return seconds_of(_glassformer("train", *work.words, "--out", "run", "--quiet"), folder, cache=cache)


def _losses(run: Path) -> dict[str, float]:
    """The last validation loss that a run recorded, where its objective has one."""
    records = MetricsLog(run / "metrics.jsonl").read()
    found = [float(record["validation_loss"]) for record in records if "validation_loss" in record]
    return {WARM: found[-1]} if found else {}


def _glassformer(*words: str) -> list[str]:
    return [sys.executable, "-m", "glassformer", *words]


def _in_turns(programs: Mapping[str, Callable[[], Seconds]], rounds: int, watch: Watcher) -> dict[str, list[Seconds]]:
    found: dict[str, list[Seconds]] = {name: [] for name in programs}
    for turn in range(rounds):
        for place, (name, program) in enumerate(programs.items()):
            found[name].append(program())
            watch.progress("measuring", turn * len(programs) + place + 1, rounds * len(programs), {name: found[name][-1][0]})
    return found


def _document(kind: str, found: Mapping[str, list[Seconds]], base: str, settings: dict[str, Any]) -> dict[str, Any]:
    """Seconds and, round by round, the ratio to ``base``; the spread is over the rounds."""
    machine: dict[str, Any] = {"date": date.today().isoformat(), "cores": os.cpu_count(), "python": platform.python_version()}
    if hasattr(os, "getloadavg"):
        machine["load"] = round(os.getloadavg()[0], 1)
    return {
        "benchmark": kind,
        "machine": machine,
        "settings": settings,
        "seconds": {name: _spread([pair[0] for pair in pairs]) for name, pairs in found.items()},
        "cpu_seconds": {name: _spread([pair[1] for pair in pairs]) for name, pairs in found.items()},
        "times_as_long_as": base,
        "ratio": {name: _spread([a[0] / b[0] for a, b in zip(pairs, found[base])]) for name, pairs in found.items()},
        "cpu_ratio": {
            name: _spread([a[1] / max(b[1], 1e-3) for a, b in zip(pairs, found[base])]) for name, pairs in found.items()
        },
        "skipped": [],
    }


def _spread(values: list[float]) -> dict[str, Any]:
    ordered = sorted(values)
    middle = len(ordered) // 2
    median = ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2
    return {"value": median, "low": ordered[0], "high": ordered[-1], "n": len(ordered)}
