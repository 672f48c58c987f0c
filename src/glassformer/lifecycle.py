"""How a run begins and ends on disk: its folder, the checkpoint it goes on from, and what the folder says when it ends."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from glassformer.foundation.config import diff
from glassformer.foundation.errors import (
    ConfigError,
    DiskFull,
    Diverged,
    Interrupted,
    OutOfMemory,
    RunError,
    UsageError,
    did_you_mean,
)
from glassformer.foundation.plugins import changed_plugins
from glassformer.foundation.progress import SILENT, Watcher
from glassformer.foundation.runtime import is_out_of_memory
from glassformer.foundation.stopwatch import Stopwatch
from glassformer.recipe import Recipe, Source
from glassformer.runs.checkpoint import Checkpoint, discard_after, newest_good
from glassformer.runs.directory import RunDirectory, find_runs
from glassformer.runs.records import MetricsLog
from glassformer.training.signals import StopRequested, StopSignal

MAY_CHANGE_ON_RESUME = (
    "about",
    "result",
    "data.path",  # the text itself must be the same: its sha256 is compared
    "data.validation",
    "data.test",
    "training.steps",
    "training.epochs",
    "training.log_every",
    "training.accumulate",
    "training.out_of_memory",
    "evaluation.",
    "checkpoint.",
)
"""Keys that may differ when a run goes on: how long, how often it looks and saves, the number of micro-batches."""


def folder_of(source: Source, out: Path | str | None, *, resume: bool, watch: Watcher = SILENT) -> Path:
    """The run's folder: ``out``; the run itself where one is to go on; runs/NAME otherwise."""
    run = _run_of(source)
    if resume and run is not None:
        if out is not None and Path(out).resolve() != run.resolve():
            raise UsageError(f"{source} is the run to continue, and --out names another folder ({out}); drop --out.")
        return run
    if run is not None and Path(str(source)).is_dir():
        raise UsageError(
            f"{source} is the folder of a run. To continue it, add --resume. To train its recipe again: glassformer train "
            f"{RunDirectory(run).recipe_file} --out NEW."
        )
    if out is not None:
        return Path(out)
    folder = default_folder(source, resume=resume)
    _tell_folder(source, folder, resume=resume, watch=watch)
    return folder


def default_folder(source: Source, *, resume: bool) -> Path:
    """runs/NAME, runs/NAME-2, ...: the first unused one, or, to resume, the last used one."""
    name = _name_of(source)
    used: Path | None = None
    for number in range(1, 10_000):
        folder = Path("runs") / (name if number == 1 else f"{name}-{number}")
        if not folder.exists():
            return used if resume and used is not None else folder
        used = folder
    raise RunError("runs/ holds ten thousand runs of this recipe; name a folder with --out.")


def _name_of(source: Source) -> str:
    """What a run of ``source`` is called: its file or name without the ending."""
    run = _run_of(source)  # its recipe.yaml, to be trained once more
    return (run.resolve() if run is not None else Path(source)).stem if isinstance(source, str | Path) else "run"


def _run_of(source: Source) -> Path | None:
    """The run whose folder, or whose own recipe.yaml, ``source`` is."""
    if not isinstance(source, str | Path):
        return None
    place = Path(source)
    if RunDirectory(place).exists():
        return place
    inside = RunDirectory(place.parent)
    return inside.root if place == inside.recipe_file and inside.exists() and inside.state_file.exists() else None


def _tell_folder(source: Source, folder: Path, *, resume: bool, watch: Watcher) -> None:
    """Says which of runs/NAME, runs/NAME-2, ... is written, where nobody named it and runs/NAME is taken."""
    first = Path("runs") / _name_of(source)
    if folder == first:
        return
    if resume:
        watch.say(f"The newest run of this recipe is {folder}.")
    else:
        watch.say(f"{first} exists, so this run goes to {folder}. To continue the old one: glassformer train {first} --resume.")


def tell_nothing_left(beginning: Checkpoint | None, steps: int, watch: Watcher) -> None:
    """A finished run that is resumed says how to train it further."""
    if beginning is not None and beginning.step >= steps:
        watch.say(f"Nothing is left to train: {steps} steps are done. For more, add --set training.steps=N.")


def refuse_nothing_to_resume(folder: RunDirectory) -> None:
    """A mistyped folder must not begin a run from zero."""
    if folder.root.exists():
        return
    beside = [run.root.name for run in find_runs(folder.root.parent)] if folder.root.parent.is_dir() else []
    raise RunError(
        f"{folder.root} does not exist, so there is nothing to resume.{did_you_mean(folder.root.name, beside)} "
        "Without --resume a new run begins there."
    )


def beginning_of(folder: RunDirectory, recipe: Recipe, *, resume: bool, watch: Watcher) -> Checkpoint | None:
    """The checkpoint a resumed run goes on from; None at a fresh start. Refuses a used folder and a changed recipe."""
    if resume:
        folder.clear_unfinished()
    if not resume or not folder.exists():
        folder.refuse_if_used(resume=resume)
        return None
    before = Recipe.parse(folder.read_recipe()).to_dict()  # a key added by a later version means its default
    changed = [
        f"{key}: {before!r} -> {after!r}"
        for key, (before, after) in diff(before, recipe.to_dict()).items()
        if not key.startswith(MAY_CHANGE_ON_RESUME)
    ]
    if changed:
        raise ConfigError(
            f"{folder.root} cannot go on with another recipe ({'; '.join(changed[:3])}). Only how long it trains, how often it "
            "evaluates and what it keeps may change; start a new run for anything else. To continue it as it was: "
            f"glassformer train {folder.root} --resume."
        )
    other = changed_plugins(folder.read_environment().get("plugins", []))
    if other:
        raise ConfigError(
            f"{folder.root} was trained with another {' and '.join(other)} (its sha256 is recorded); put the file back as it "
            "was, or start a new run with --out."
        )
    checkpoint = newest_good(folder, watch.say)
    if checkpoint is None:
        watch.say(f"{folder.root} has no whole checkpoint: starting from the first step.")
    else:
        watch.say(f"Going on from step {checkpoint.step}.")
    return checkpoint


def rewind(folder: RunDirectory, step: int) -> None:
    """Forgets what an earlier process did beyond ``step``: it is done again. Nothing is touched before all is known to fit."""
    discard_after(folder, step)
    for file in folder.files_after(step):
        file.unlink()
    MetricsLog(folder.metrics_file).cut_after(step)


def threads_before(folder: RunDirectory) -> int | None:
    """Another number of threads gives other bits, so a resumed run takes the number it began with."""
    return int(folder.read_environment()["threads"]) if folder.environment_file.exists() else None


@contextmanager
def ending_recorded(folder: RunDirectory, stop: StopSignal) -> Iterator[None]:
    """However the run ends, the folder says so."""
    try:
        yield
    except StopRequested:
        assert stop.number is not None
        raise Interrupted("Stopped before the first step; nothing was lost.", signal_number=stop.number) from None
    except Interrupted:
        _note_ending(folder, "stopped")
        raise
    except Diverged as error:
        _note_ending(folder, "diverged", reason=str(error))
        raise
    except KeyboardInterrupt:
        _note_ending(folder, "stopped")
        raise
    except Exception as error:
        _note_ending(folder, "failed", reason=str(error))
        if is_out_of_memory(error):
            raise OutOfMemory(
                f"Out of memory ({str(error).splitlines()[0]}). Make model.width, model.layers, model.context, "
                "training.batch_size or evaluation.batch_size smaller; `train --dry-run` shows what a recipe needs."
            ) from error
        raise


@contextmanager
def timed(folder: RunDirectory, clock: Stopwatch) -> Iterator[None]:
    """However the run ends, its records say where the seconds of this process went, once it took a step."""
    try:
        yield
    finally:
        timing = clock.to_dict()
        if {"first step", "steps"} & set(timing["seconds"]):  # a refused run, or one that was finished, stands as it stood
            with suppress(DiskFull):
                folder.add_timing(timing)


def _note_ending(folder: RunDirectory, status: str, **facts: Any) -> None:
    """Only of a run that this process began or went on with; a refused one stands as it stood."""
    state = folder.read_state()
    if state.get("status") == "running" and state.get("pid") == os.getpid():
        steps = folder.steps()
        with suppress(DiskFull):  # what made the run end is said; a full disk cannot take more
            folder.write_state(status, step=steps[-1] if steps else 0, **facts)
