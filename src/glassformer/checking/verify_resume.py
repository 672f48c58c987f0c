"""Proof that a killed and resumed run ends in the same bits: real processes, kill -9 at random steps, sha256 compared."""

from __future__ import annotations

import itertools
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from glassformer.foundation.errors import GlassformerError, UsageError
from glassformer.foundation.plugins import load_plugins
from glassformer.foundation.progress import SILENT, Watcher
from glassformer.foundation.yaml_text import dump_yaml
from glassformer.recipe import Source, load_recipe
from glassformer.runs.checkpoint import checkpoint_checksums
from glassformer.runs.directory import RunDirectory

BETWEEN_LOOKS = 0.002  # seconds
SOON = 120.0  # seconds in which all processes end after one was killed
TAIL = 4096  # bytes of the records that are looked at


@dataclass(frozen=True)
class ResumeProof:
    """``same``: weights and optimizer of every broken run equal the unbroken one's, byte for byte."""

    same: bool
    unbroken: dict[str, str]
    broken: list[dict[str, Any]] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
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
    processes: int = 1,
    resume_with: Sequence[int] = (),
    watch: Watcher = SILENT,
) -> ResumeProof:
    """Trains the recipe once unbroken and ``times`` times with ``kills`` kills each, at steps drawn from ``seed``.

    On several ``processes`` one of them is killed, drawn too; the broken run goes on with the numbers of processes in
    ``resume_with``, one after another (with as many as before, if it is empty).
    """
    load_plugins(plugins)
    recipe = load_recipe(source, set or {})
    if recipe.training.pieces is None and max(processes, *resume_with, 1) > 1:
        recipe = load_recipe(recipe, {"training.pieces": max(processes, *resume_with)})
    steps, every = recipe.training.steps, recipe.checkpoint.every
    if steps is not None and steps <= kills:
        raise UsageError(
            _too_many(kills, steps, f"of training.steps={steps}", f"set training.steps={kills + 1} or more"),
            reason="too-many-kills",
        )
    if steps is not None and every is not None and every >= steps - 1:
        raise UsageError(_too_seldom(every, f"of training.steps={steps}"), reason="saves-too-seldom")
    with tempfile.TemporaryDirectory(dir=folder, prefix="verify-resume-") as place:
        file = Path(place) / "recipe.yaml"
        file.write_text(dump_yaml(recipe.to_dict()), encoding="utf-8")
        whole = RunDirectory(Path(place) / "unbroken")
        start = time.monotonic()
        _train(file, whole, plugins, processes)
        seconds = time.monotonic() - start
        last = whole.steps()[-1]
        expected = checkpoint_checksums(whole, last)
        watch.say(f"Unbroken run: {last} steps in {seconds:.1f} s.")
        if last <= kills:  # the text or the patience ended it, which no recipe says beforehand
            raise GlassformerError(
                _too_many(kills, last, f"that ended at step {last}", "make the run longer"), reason="too-many-kills"
            )
        first_saved = every or max(1, whole.read_state()["steps"] // 10)  # as planned: patience may have ended it before
        if first_saved >= last - 1:
            raise GlassformerError(_too_seldom(first_saved, f"that ended at step {last}"), reason="saves-too-seldom")
        chance = random.Random(seed)
        broken = []
        for number in range(1, times + 1):
            run = RunDirectory(Path(place) / f"broken-{number}")
            moments, resumed_from = [], []
            numbers = itertools.chain([processes], itertools.cycle(resume_with or [processes]))
            used: list[int] = []
            for target in _targets(chance, kills, first_saved, last):
                used.append(next(numbers))
                moments.append(_kill_at(file, run, plugins, used[-1], chance, step=target))
                resumed_from.append(max(run.steps(), default=0))
            if not any(resumed_from):
                raise GlassformerError(_too_seldom(first_saved, f"killed at step {moments[-1]}"), reason="saves-too-seldom")
            used.append(next(numbers))
            _train(file, run, plugins, used[-1])
            checksums = checkpoint_checksums(run, run.steps()[-1])
            same = checksums == expected
            facts = {"killed_at_steps": moments, "resumed_from_steps": resumed_from, "processes": used}
            broken.append({**facts, "sha256": checksums, "same": same})
            verdict = "same bits" if same else "OTHER BITS"
            on = f" on {', then '.join(map(str, used))} processes" if max(used) > 1 else ""
            watch.say(f"Run {number}{on}: killed at steps {moments}, resumed from steps {resumed_from}, {verdict}.")
            watch.progress("verifying", number, times)
    return ResumeProof(all(run["same"] for run in broken), expected, broken)


def _targets(chance: random.Random, kills: int, first_saved: int, last: int) -> list[int]:
    """Steps at which to kill, in order; one of them lies behind the first checkpoint, or no run would be resumed."""
    late = chance.randrange(first_saved + 1, last)
    return sorted([late, *chance.sample([step for step in range(1, last) if step != late], kills - 1)])


def _too_seldom(every: int, run: str) -> str:
    return (
        f"checkpoint.every={every} is too rare to test resuming a run {run}: a killed run would start over; "
        "set checkpoint.every to a tenth of the steps."
    )


def _too_many(kills: int, steps: int, run: str, longer: str) -> str:
    """Why ``kills`` do not fit into a run of ``steps``, and what to do."""
    fewer = f"use --kills {steps - 1} or fewer, or " if steps > 1 else ""
    return f"--kills {kills} is too many for a run {run}: each kill needs a separate step before the last one; {fewer}{longer}."


def _command(file: Path, run: RunDirectory, plugins: Sequence[Path | str], processes: int) -> list[str]:
    named = [word for plugin in plugins for word in ("--plugin", str(plugin))]
    again = ["--resume"] if run.root.exists() else []
    on = ["--processes", str(processes)] if processes > 1 else []
    return [sys.executable, "-m", "glassformer", "train", str(file), "--out", str(run.root), *again, "--quiet", *on, *named]


def _train(file: Path, run: RunDirectory, plugins: Sequence[Path | str], processes: int) -> None:
    done = subprocess.run(_command(file, run, plugins, processes), capture_output=True, text=True, check=False)
    if done.returncode:
        raise GlassformerError(
            f"The tested run failed with exit code {done.returncode}: {done.stderr.strip()}", reason="run-failed"
        )


def _kill_at(
    file: Path, run: RunDirectory, plugins: Sequence[Path | str], processes: int, chance: random.Random, *, step: int
) -> int:
    """Starts (or resumes) the run and kills it with -9 once it has recorded ``step``; gives the step it had come to.

    Of several processes one is killed; the others end by themselves, and the launcher says that one was killed.
    """
    step = max(step, _reached(run) + 1)  # what the process before it recorded last was perhaps not saved
    command = _command(file, run, plugins, processes)
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        killed = False
        try:
            while process.poll() is None and _reached(run) < step:
                time.sleep(BETWEEN_LOOKS)
            workers = _children(process.pid) if processes > 1 else []
            if workers:
                killed = True
                with suppress(ProcessLookupError):
                    os.kill(chance.choice(workers), signal.SIGKILL)
                process.wait(timeout=SOON)
        finally:
            process.kill()
        code = process.wait()
    if not (killed and code == 1) and code != -signal.SIGKILL:
        raise GlassformerError(
            f"The run ended (exit code {code}) before it could be killed at step {step}, so nothing was tested; "
            "use a longer run, e.g. --set training.steps=1000.",
            reason="ended-before-kill",
        )
    return _reached(run)


def _children(pid: int) -> list[int]:
    """The processes that a launcher started; none where the system does not tell (then the launcher is killed)."""
    try:
        return [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="utf-8").split()]
    except OSError:
        return []


def _reached(run: RunDirectory) -> int:
    """The last step the run has recorded so far."""
    try:
        with run.metrics_file.open("rb") as stream:
            stream.seek(max(0, run.metrics_file.stat().st_size - TAIL))
            lines = stream.read().split(b"\n")[:-1]  # what follows the last line end is still being written
    except OSError:  # it has not begun
        return 0
    steps = re.findall(rb'"step": ?(\d+)', b"\n".join(lines))
    return int(steps[-1]) if steps else 0
