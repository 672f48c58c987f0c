"""Proof that a killed and resumed run ends in the same bits: real processes, kill -9 at random moments, sha256 compared."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from glassformer.foundation.errors import GlassformerError
from glassformer.foundation.plugins import load_plugins
from glassformer.foundation.progress import SILENT, Watcher
from glassformer.foundation.yaml_text import dump_yaml
from glassformer.recipe import Source, load_recipe
from glassformer.runs.checkpoint import sums_of
from glassformer.runs.directory import RunDirectory

PATIENCE = 3600.0  # seconds one process may take before it counts as hanging


@dataclass(frozen=True)
class ResumeProof:
    """``same``: weights and optimizer of every broken run equal the unbroken one's, byte for byte."""

    same: bool
    unbroken: dict[str, str]
    broken: list[dict[str, Any]] = field(default_factory=list)

    def plain(self) -> dict[str, Any]:
        return {"same": self.same, "unbroken": self.unbroken, "broken": self.broken}


def verify_resume(
    source: Source,
    *,
    set: Mapping[str, Any] | None = None,
    plugins: Sequence[Path | str] = (),
    kills: int = 2,
    times: int = 1,
    seed: int = 0,
    folder: Path | None = None,
    watch: Watcher = SILENT,
) -> ResumeProof:
    """Trains the recipe once unbroken and ``times`` times with ``kills`` kills each, at moments drawn from ``seed``."""
    load_plugins(plugins)
    recipe = load_recipe(source, set or {})
    with tempfile.TemporaryDirectory(dir=folder, prefix="verify-resume-") as place:
        file = Path(place) / "recipe.yaml"
        file.write_text(dump_yaml(recipe.plain()), encoding="utf-8")
        whole = RunDirectory(Path(place) / "unbroken")
        begun = time.monotonic()
        _train(file, whole, plugins)
        seconds = time.monotonic() - begun
        last = whole.steps()[-1]
        expected = sums_of(whole, last)
        watch.say(f"Unbroken run: {last} steps in {seconds:.1f} s.")
        chance = random.Random(seed)
        broken = []
        for number in range(1, times + 1):
            run = RunDirectory(Path(place) / f"broken-{number}")
            moments = [_kill_at(file, run, plugins, after=chance.uniform(0.05, 0.95) * seconds) for _ in range(kills)]
            _train(file, run, plugins)
            sums = sums_of(run, run.steps()[-1])
            broken.append({"killed_at_steps": moments, "sha256": sums, "same": sums == expected})
            watch.say(f"Run {number}: killed at steps {moments}, resumed, {'same bits' if sums == expected else 'OTHER BITS'}.")
            watch.progress("verifying", number, times)
    return ResumeProof(all(run["same"] for run in broken), expected, broken)


def _command(file: Path, run: RunDirectory, plugins: Sequence[Path | str]) -> list[str]:
    named = [word for plugin in plugins for word in ("--plugin", str(plugin))]
    return [sys.executable, "-m", "glassformer", "train", str(file), "--out", str(run.root), "--resume", "--quiet", *named]


def _train(file: Path, run: RunDirectory, plugins: Sequence[Path | str]) -> None:
    done = subprocess.run(_command(file, run, plugins), capture_output=True, text=True, timeout=PATIENCE, check=False)
    if done.returncode:
        raise GlassformerError(f"The run to be verified failed with exit code {done.returncode}: {done.stderr.strip()}")


def _kill_at(file: Path, run: RunDirectory, plugins: Sequence[Path | str], *, after: float) -> int:
    """Starts (or resumes) the run, kills it with -9 after some seconds; gives the last step that was saved by then."""
    process = subprocess.Popen(_command(file, run, plugins), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        process.wait(timeout=after)
    except subprocess.TimeoutExpired:
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    steps = run.steps() if run.checkpoints.is_dir() else []
    return steps[-1] if steps else 0
