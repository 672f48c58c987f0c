"""Whole commands, each in a process of its own -> seconds from the command to its end, and ratios. Imports no torch.

``start``: a tiny recipe trained for some steps, with nothing kept and with what the time before kept, beside
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
from datetime import date
from pathlib import Path
from typing import Any

from glassformer.benchmark.nanogpt_command import nanogpt_command
from glassformer.foundation.errors import GlassformerError
from glassformer.foundation.progress import SILENT, Watcher

IMPORT_TORCH, COLD, WARM, NANOGPT = 'python -c "import torch"', "train, nothing kept", "train, kept data and checks", "nanoGPT"
STUDY, ONE_BY_ONE, NANOGPT_RUNS = "study", "the same runs one by one", "as many nanoGPT runs"
TINY = {"model.width": 32, "model.layers": 2, "model.heads": 2, "model.context": 32, "training.batch_size": 8}
RECIPE = "docstrings-char"
Seconds = tuple[float, float]
"""On the wall, of the processor (all threads and children)."""


def benchmark_start(*, steps: int, rounds: int, nanogpt: Path | None = None, watch: Watcher = SILENT) -> dict[str, Any]:
    """Seconds of a tiny ``glassformer train``, cold and warm, and how many times those of ``import torch`` that is."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        programs: dict[str, Callable[[], Seconds]] = {
            IMPORT_TORCH: lambda: seconds_of([sys.executable, "-c", "import torch"], folder),
            COLD: lambda: _train(folder, steps, cold=True),
            WARM: lambda: _train(folder, steps, cold=False),
        }
        if nanogpt is not None:
            programs[NANOGPT] = lambda: seconds_of(*nanogpt_command(nanogpt, folder / "nanogpt", TINY, steps))
        found = _in_turns(programs, rounds, watch)
    return _document("start", found, IMPORT_TORCH, {"recipe": RECIPE, "steps": steps, **TINY})


def benchmark_study(
    *, steps: int, seeds: int, rounds: int, nanogpt: Path | None = None, watch: Watcher = SILENT
) -> dict[str, Any]:
    """Seconds of a study of 2 variants by ``seeds``, empty store, beside one run times their number."""
    runs = 2 * seeds
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)

        def study() -> Seconds:
            shutil.rmtree(folder / "study", ignore_errors=True)
            words = ["compare", RECIPE, "--vary", "model.positions=sinusoidal", "--seeds", str(seeds), "--no-store"]
            return seconds_of(_glassformer(*words, *_sets(steps), "--out", "study", "--quiet"), folder, cache=folder / "cache")

        def one() -> Seconds:
            wall, processor = _train(folder, steps, cold=False)
            return runs * wall, runs * processor

        programs: dict[str, Callable[[], Seconds]] = {STUDY: study, ONE_BY_ONE: one}
        if nanogpt is not None:

            def peer() -> Seconds:
                wall, processor = seconds_of(*nanogpt_command(nanogpt, folder / "nanogpt", TINY, steps))
                return runs * wall, runs * processor

            programs[NANOGPT_RUNS] = peer
        found = _in_turns(programs, rounds, watch)
    return _document("study", found, STUDY, {"recipe": RECIPE, "variants": 2, "seeds": seeds, "steps": steps, **TINY})


def seconds_of(command: list[str], folder: Path, *, cache: Path | None = None) -> Seconds:
    """Runs a command to its end. A command that fails is a sentence with its last words."""
    before, began = os.times(), time.perf_counter()
    variables = {**os.environ} | ({} if cache is None else {"GLASSFORMER_CACHE": str(cache)})
    answer = subprocess.run(command, cwd=folder, env=variables, capture_output=True, text=True, check=False)
    wall, after = time.perf_counter() - began, os.times()
    if answer.returncode != 0:
        last = (answer.stderr or answer.stdout).strip().rpartition("\n")[2]
        raise GlassformerError(f"{' '.join(command[1:4])} ended with {answer.returncode}: {last}")
    spent = after.children_user - before.children_user + after.children_system - before.children_system
    return wall, spent


def _train(folder: Path, steps: int, *, cold: bool) -> Seconds:
    shutil.rmtree(folder / "run", ignore_errors=True)
    if cold:
        shutil.rmtree(folder / "cache", ignore_errors=True)
    return seconds_of(_glassformer("train", RECIPE, *_sets(steps), "--out", "run", "--quiet"), folder, cache=folder / "cache")


def _glassformer(*words: str) -> list[str]:
    return [sys.executable, "-m", "glassformer", *words]


def _sets(steps: int) -> list[str]:
    values = {**TINY, "training.steps": steps, "evaluation.every": steps, "checkpoint.every": steps}
    return [word for key, value in values.items() for word in ("--set", f"{key}={value}")]


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
