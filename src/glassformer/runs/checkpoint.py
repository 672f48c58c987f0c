"""Checkpoints: whole or absent, checked byte by byte, never pickle.

A checkpoint is a folder of safetensors and JSON with a manifest of sha256 sums. It is written beside its place, made
durable, and renamed; a reader finds the whole folder or none. A damaged one is named, and the one before it is used.
A run copied without its optimizer files has weights to read and cannot train on.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from glassformer.foundation.errors import DamagedCheckpoint, DiskFull, OptimizerDamaged, RunError, UsageError
from glassformer.foundation.files import read_json, room_on_disk, sha256_of_file, sync_folder, write_json
from glassformer.runs.directory import RunDirectory

SCHEMA = 1
MODEL, OPTIMIZER, STATE, MANIFEST = "model.safetensors", "optimizer.safetensors", "state.json", "manifest.json"


@dataclass(frozen=True)
class Checkpoint:
    """Everything a run needs to go on from ``step``; read without its optimizer file, all but that."""

    step: int
    model: Mapping[str, Tensor]
    optimizer: Mapping[str, Tensor] = field(default_factory=dict)
    state: Mapping[str, Any] = field(default_factory=dict)


def save_checkpoint(run: RunDirectory, checkpoint: Checkpoint) -> Path:
    """Writes one checkpoint; when this returns, it survives a power cut."""
    target = run.checkpoint(checkpoint.step)
    if target.exists():
        return target  # the same step of the same run: the same bytes
    draft = target.with_name(f".{target.name}.draft-{os.getpid()}")
    try:
        with room_on_disk(target):
            shutil.rmtree(draft, ignore_errors=True)
            draft.mkdir(parents=True)
            with ThreadPoolExecutor(2) as pool:  # writing, syncing and hashing release Python's lock: two files, two threads
                parts = {MODEL: checkpoint.model, OPTIMIZER: checkpoint.optimizer}
                writing = {name: pool.submit(_write_tensors, draft / name, tensors) for name, tensors in parts.items()}
                write_json(draft / STATE, {"schema": SCHEMA, "step": checkpoint.step, **checkpoint.state})
                sums = {name: one.result() for name, one in writing.items()} | {STATE: sha256_of_file(draft / STATE)}
            write_json(draft / MANIFEST, {"schema": SCHEMA, "sha256": sums})
            os.rename(draft, target)
            sync_folder(target.parent)
    except SafetensorError as error:  # safetensors hides the operating system's error number
        shutil.rmtree(draft, ignore_errors=True)
        if "space" in str(error) or "File too large" in str(error) or "os error 28" in str(error):
            raise DiskFull(f"No room to write {target}; the checkpoints before it are untouched.") from error
        raise
    except BaseException:
        shutil.rmtree(draft, ignore_errors=True)
        raise
    return target


def _write_tensors(file: Path, tensors: Mapping[str, Tensor]) -> str:
    """Writes and syncs one file; gives its sha256."""
    save_file({name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}, file)
    with file.open("rb+") as stream:
        os.fsync(stream.fileno())
    return sha256_of_file(file)


def load_checkpoint(folder: Path) -> Checkpoint:
    """Reads one checkpoint after comparing every byte with the manifest."""
    verify_checkpoint(folder)
    return _read(folder, optimizer=True)


def load_to_read(folder: Path, warn: Callable[[str], None]) -> Checkpoint:
    """The same to look at and not to train on: an optimizer file that is missing or damaged is said and done without."""
    try:
        return load_checkpoint(folder)
    except OptimizerDamaged as error:
        warn(f"{error} The weights beside it are whole and are read, but training cannot go on from them.")
        return _read(folder, optimizer=False)


def _read(folder: Path, *, optimizer: bool) -> Checkpoint:
    state = read_json(folder / STATE)
    try:
        model, memory = load_file(folder / MODEL), load_file(folder / OPTIMIZER) if optimizer else {}
    except (SafetensorError, OSError) as error:
        raise DamagedCheckpoint(f"{folder} cannot be read ({error}).") from error
    return Checkpoint(step=state["step"], model=model, optimizer=memory, state=state)


def verify_checkpoint(folder: Path) -> None:
    """Raises ``DamagedCheckpoint`` naming the file when a byte is missing or different.

    It is an ``OptimizerDamaged`` when that is the only file with which something is wrong.
    """
    if not (folder / MANIFEST).is_file():
        raise DamagedCheckpoint(f"{folder} has no {MANIFEST}: it is not a whole checkpoint.")
    try:
        sums = dict(read_json(folder / MANIFEST)["sha256"])
    except (RunError, KeyError, TypeError, ValueError) as error:
        raise DamagedCheckpoint(f"{folder / MANIFEST} is damaged ({error}).") from error
    for name in (MODEL, STATE, OPTIMIZER):  # the optimizer last: then all else is right
        file, kind = folder / name, OptimizerDamaged if name == OPTIMIZER else DamagedCheckpoint
        if not file.is_file():
            raise kind(f"{file} is missing.")
        if sha256_of_file(file) != sums.get(name):
            raise kind(f"{file} is damaged: its sha256 is not the one in {MANIFEST}.")


def newest_good(run: RunDirectory, warn: Callable[[str], None]) -> Checkpoint | None:
    """The newest checkpoint whose bytes are whole; damaged ones are said and passed over.

    Where none is whole, but with one nothing is wrong except its optimizer file, ``OptimizerDamaged`` says what may be done:
    to begin again would throw good weights away.
    """
    found, to_read = _newest(run, warn)
    if found is None and to_read is not None:
        raise OptimizerDamaged(
            f"{to_read.fault} {run.root} cannot train on without it. Copy the file back from where the run was made, or begin "
            f"a new run from these weights with --set init_from={run.root} --out NEW."
        )
    return found


def newest_to_read(run: RunDirectory, warn: Callable[[str], None]) -> Checkpoint | None:
    """The same to look at and not to train on: the newest whose weights are whole, whatever its optimizer file is."""
    for step in reversed(run.steps()):
        try:
            return load_to_read(run.checkpoint(step), warn)
        except DamagedCheckpoint as error:
            warn(f"{error} Using the checkpoint before it.")
    return None


def last_checkpoint(run: RunDirectory, warn: Callable[[str], None]) -> Checkpoint:
    """The same, of a run that must have one."""
    found = newest_to_read(run, warn)
    if found is None:
        raise RunError(f"{run.root} has no whole checkpoint yet.")
    return found


@dataclass(frozen=True)
class _ToRead:
    """A checkpoint with a fault in its optimizer file alone."""

    folder: Path
    fault: OptimizerDamaged


def _newest(run: RunDirectory, warn: Callable[[str], None]) -> tuple[Checkpoint | None, _ToRead | None]:
    """The newest whole checkpoint, and the newest that is good to read. Says what is wrong with newer ones."""
    to_read: _ToRead | None = None
    later: list[str] = []  # of those older than ``to_read``: to be said only if one before them is used
    for step in reversed(run.steps()):
        try:
            found = load_checkpoint(run.checkpoint(step))
        except DamagedCheckpoint as error:
            if to_read is None and isinstance(error, OptimizerDamaged):
                to_read = _ToRead(run.checkpoint(step), error)
            (warn if to_read is None else later.append)(f"{error} Using the checkpoint before it.")
        else:
            for sentence in later:
                warn(sentence)
            return found, to_read
    return None, to_read


def prune(run: RunDirectory, *, keep: int, also: set[int]) -> None:
    """Removes all but the newest ``keep`` checkpoints (two at least) and those in ``also``."""
    for step in run.steps()[: -max(2, keep)]:
        if step not in also:
            _remove(run.checkpoint(step))
    for leftover in run.checkpoints.glob(".step-*"):  # of a process that was killed while it wrote or removed
        shutil.rmtree(leftover, ignore_errors=True)


def discard_after(run: RunDirectory, step: int) -> None:
    """Removes the checkpoints beyond ``step``: damaged ones that a resumed run is about to write again."""
    for later in run.steps():
        if later > step:
            _remove(run.checkpoint(later))


def _remove(folder: Path) -> None:
    """Out of the list in one step, then out of the disk: a kill in between leaves no half of a checkpoint listed."""
    leaving = folder.with_name(f".{folder.name}.leaving")
    shutil.rmtree(leaving, ignore_errors=True)
    os.rename(folder, leaving)
    shutil.rmtree(leaving, ignore_errors=True)


def sums_of(run: RunDirectory, step: int) -> dict[str, str]:
    """The sha256 of weights and optimizer state at ``step``: what two equal runs share."""
    sums = read_json(run.checkpoint(step) / MANIFEST)["sha256"]
    return {name: sums[name] for name in (MODEL, OPTIMIZER)}


def _best_step(run: RunDirectory, warn: Callable[[str], None]) -> int | None:
    """Of a finished run what its end says: its last evaluation may have come after its last checkpoint."""
    state = run.read_state()
    at_end = state.get("best_step") if state["status"] == "finished" else None
    if at_end in run.steps():
        return at_end
    return last_checkpoint(run, warn).state.get("best_step")


def step_named(run: RunDirectory, which: str | int, warn: Callable[[str], None]) -> int:
    """The step that ``best`` or a number names."""
    step, steps = (_best_step(run, warn) if which == "best" else which), run.steps()
    if which == "best" and step not in steps:
        raise RunError(f"{run.root} kept no best checkpoint; train with --set checkpoint.best=true, or use --checkpoint last.")
    if not str(step).isdigit():
        raise UsageError(f"--checkpoint {which!r} must be best, last or a step.")
    if int(str(step)) not in steps:
        raise RunError(f"{run.root} has no checkpoint of step {step}; it has {', '.join(map(str, steps)) or 'none'}.")
    return int(str(step))
