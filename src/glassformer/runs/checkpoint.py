"""Checkpoints: written atomically, verified by checksum, never pickle.

A checkpoint is a folder of safetensors and JSON with a manifest of sha256 checksums. It is written under a temporary name,
synced and renamed, so that a reader finds the whole folder or none. A damaged one is reported, and the one before it is used.
A run copied without its optimizer files can be evaluated but not resumed. At the end: the film, snapshots of the weights alone
during training, denser at the start.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load, load_file, save, save_file
from torch import Tensor

from glassformer.foundation.errors import DamagedCheckpoint, DiskFull, OptimizerDamaged, RunError, UsageError
from glassformer.foundation.files import (
    read_bytes,
    read_json,
    read_json_object,
    refuse_links,
    sha256_of_file,
    whole_folder,
    write_atomically,
    write_json,
)
from glassformer.runs.directory import RunDirectory

SCHEMA = 1
IN_BACKGROUND = 32 << 20
"""Bytes from which a checkpoint is written while training goes on; a smaller one takes milliseconds."""
MODEL, OPTIMIZER, STATE, MANIFEST = "model.safetensors", "optimizer.safetensors", "state.json", "manifest.json"


@dataclass(frozen=True)
class Checkpoint:
    """The state of a run at ``step``; without the optimizer state if that file was not read."""

    step: int
    model: Mapping[str, Tensor]
    optimizer: Mapping[str, Tensor] = field(default_factory=dict)
    state: Mapping[str, Any] = field(default_factory=dict)


def save_checkpoint(run: RunDirectory, checkpoint: Checkpoint) -> Path:
    """Writes one checkpoint durably: once this returns, it survives a power cut."""
    target = run.checkpoint(checkpoint.step)
    refuse_links(target)
    if target.exists():
        return target  # same run, same step: identical content
    try:
        # writing, syncing and hashing release the GIL: one thread per file
        with whole_folder(target) as draft, ThreadPoolExecutor(2) as pool:
            parts = {MODEL: checkpoint.model, OPTIMIZER: checkpoint.optimizer}
            writing = {name: pool.submit(_write_tensors, draft / name, tensors) for name, tensors in parts.items()}
            write_json(draft / STATE, {"schema": SCHEMA, "step": checkpoint.step, **checkpoint.state})
            checksums = {name: one.result() for name, one in writing.items()} | {STATE: sha256_of_file(draft / STATE)}
            write_json(draft / MANIFEST, {"schema": SCHEMA, "sha256": checksums})
    except SafetensorError as error:  # safetensors hides the operating system's error number
        if "space" in str(error) or "File too large" in str(error) or "os error 28" in str(error):
            raise DiskFull(
                f"No room to write {target}; the checkpoints before it are untouched.", reason="disk-full"
            ) from error
        raise
    return target


class CheckpointWriter:
    """Saves and prunes the checkpoints of a run, large ones in a thread while training goes on.

    What goes wrong in the thread is raised by the next call; ``written`` is called in the caller's thread. Leaving the ``with``
    waits for the last checkpoint, whatever ended the training. A kill loses at most the one that is being written.
    """

    def __init__(self, run: RunDirectory, *, keep: int, written: Callable[[Path], None]) -> None:
        self._run, self._keep, self._written = run, keep, written
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="checkpoint")
        self._pending: Future[Path] | None = None

    def __enter__(self) -> CheckpointWriter:
        return self

    def __exit__(self, *_: object) -> None:
        with self._pool:
            self._wait()

    def write(self, checkpoint: Checkpoint, *, best: int | None) -> None:
        """Copies its tensors and begins to write it, once the one before is written."""
        self._wait()
        parts = (checkpoint.model, checkpoint.optimizer)
        small = sum(tensor.nbytes for part in parts for tensor in part.values()) < IN_BACKGROUND
        if small:
            self._written(self._save(checkpoint, best))
        else:
            model, optimizer = ({name: one.detach().to("cpu", copy=True) for name, one in part.items()} for part in parts)
            self._pending = self._pool.submit(self._save, replace(checkpoint, model=model, optimizer=optimizer), best)

    def _wait(self) -> None:
        if self._pending is not None:
            pending = self._pending
            wait([pending])  # broken off by Ctrl-C, it is waited for again
            self._pending = None
            self._written(pending.result())

    def _save(self, checkpoint: Checkpoint, best: int | None) -> Path:
        written = save_checkpoint(self._run, checkpoint)
        prune(self._run, keep=self._keep, also=set() if best is None else {best})
        return written


def _write_tensors(file: Path, tensors: Mapping[str, Tensor]) -> str:
    """Writes and syncs one file; returns its sha256."""
    save_file({name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}, file)
    with file.open("rb+") as stream:
        os.fsync(stream.fileno())
    return sha256_of_file(file)


def load_checkpoint(folder: Path) -> Checkpoint:
    """Reads one checkpoint after verifying its checksums."""
    verify_checkpoint(folder)
    return _read(folder, optimizer=True)


def load_for_inference(folder: Path, warn: Callable[[str], None]) -> Checkpoint:
    """The same for inference: a missing or damaged optimizer file is reported and skipped."""
    try:
        return load_checkpoint(folder)
    except OptimizerDamaged as error:
        warn(f"{error} The weights are intact and are loaded, but training cannot resume from them.")
        return _read(folder, optimizer=False)


def _read(folder: Path, *, optimizer: bool) -> Checkpoint:
    state = read_json_object(folder / STATE, "step")
    try:
        model, memory = load_file(folder / MODEL), load_file(folder / OPTIMIZER) if optimizer else {}
    except (SafetensorError, OSError) as error:
        raise DamagedCheckpoint(f"{folder} cannot be read ({error}).", reason="unreadable-checkpoint") from error
    return Checkpoint(step=state["step"], model=model, optimizer=memory, state=state)


def verify_checkpoint(folder: Path) -> None:
    """Raises ``DamagedCheckpoint`` naming the file whose checksum is wrong.

    ``OptimizerDamaged`` if that is the only damaged file.
    """
    if not (folder / MANIFEST).is_file():
        raise DamagedCheckpoint(f"{folder} has no {MANIFEST}: it is not a complete checkpoint.", reason="no-manifest")
    try:
        manifest = read_json_object(folder / MANIFEST, "schema", "sha256")
        checksums = dict(manifest["sha256"])
    except (RunError, KeyError, TypeError, ValueError) as error:
        raise DamagedCheckpoint(f"{folder / MANIFEST} is damaged ({error}).", reason="damaged-manifest") from error
    if manifest["schema"] != SCHEMA:
        raise DamagedCheckpoint(
            f"{folder / MANIFEST} has schema {manifest['schema']!r}; this version reads {SCHEMA}.", reason="other-schema"
        )
    for name in (MODEL, STATE, OPTIMIZER):  # the optimizer last: then all other files are intact
        file, kind = folder / name, OptimizerDamaged if name == OPTIMIZER else DamagedCheckpoint
        refuse_links(file)
        if not file.is_file():
            raise kind(f"{file} is missing.", reason="missing-file")
        if sha256_of_file(file) != checksums.get(name):
            raise kind(f"{file} is damaged: its sha256 is not the one in {MANIFEST}.", reason="wrong-checksum")


def newest_good(run: RunDirectory, warn: Callable[[str], None]) -> Checkpoint | None:
    """The newest intact checkpoint; damaged ones are reported and skipped.

    Raises ``OptimizerDamaged`` if none is intact but one has only its optimizer file damaged: starting over would discard
    good weights.
    """
    weights_only: OptimizerDamaged | None = None
    later: list[str] = []  # about checkpoints older than that one: reported only if an older one is used
    steps = run.steps()
    for step in reversed(steps):
        try:
            found = load_checkpoint(run.checkpoint(step))
        except DamagedCheckpoint as error:
            if weights_only is None and isinstance(error, OptimizerDamaged):
                weights_only = error
            (warn if weights_only is None else later.append)(_skipped(error, step, steps))
        else:
            for sentence in later:
                warn(sentence)
            return found
    if weights_only is not None:
        raise OptimizerDamaged(
            f"{weights_only} {run.root} cannot be resumed without it. Copy the file back, or begin "
            f"a new run from these weights with --set init_from={run.root} --out NEW.",
            reason="no-optimizer-state",
        )
    return None


def last_checkpoint(run: RunDirectory, warn: Callable[[str], None]) -> Checkpoint:
    """The same for inference: the newest with intact weights, whatever its optimizer file; raises if the run has none."""
    steps = run.steps()
    for step in reversed(steps):
        try:
            return load_for_inference(run.checkpoint(step), warn)
        except DamagedCheckpoint as error:
            warn(_skipped(error, step, steps))
    raise RunError(f"{run.root} has no complete checkpoint yet; train it first.", reason="no-checkpoint")


def _skipped(error: DamagedCheckpoint, step: int, steps: list[int]) -> str:
    return f"{error} {'There is no checkpoint before it.' if step == steps[0] else 'Using the checkpoint before it.'}"


def prune(run: RunDirectory, *, keep: int, also: set[int]) -> None:
    """Removes all but the newest ``keep`` checkpoints (two at least) and those in ``also``."""
    for step in run.steps()[: -max(2, keep)]:
        if step not in also:
            _remove(run.checkpoint(step))
    for leftover in run.checkpoints.glob(".step-*"):  # left by a process that was killed while writing or removing
        shutil.rmtree(leftover, ignore_errors=True)


def discard_after(run: RunDirectory, step: int) -> None:
    """Removes the checkpoints after ``step``: damaged ones that a resumed run will write again."""
    for later in run.steps():
        if later > step:
            _remove(run.checkpoint(later))


def _remove(folder: Path) -> None:
    """Renamed first, then deleted: a kill in between leaves no partial checkpoint in the list."""
    leaving = folder.with_name(f".{folder.name}.leaving")
    shutil.rmtree(leaving, ignore_errors=True)
    os.rename(folder, leaving)
    shutil.rmtree(leaving, ignore_errors=True)


def checkpoint_checksums(run: RunDirectory, step: int) -> dict[str, str]:
    """The sha256 of weights and optimizer state at ``step``, for comparing runs."""
    checksums = read_json_object(run.checkpoint(step) / MANIFEST, "sha256")["sha256"]
    return {name: checksums[name] for name in (MODEL, OPTIMIZER)}


def _best_step(run: RunDirectory, warn: Callable[[str], None]) -> int | None:
    """From the state of a finished run, since its last evaluation may come after its last checkpoint."""
    state = run.read_state()
    at_end = state.get("best_step") if state["status"] == "finished" else None
    if at_end in run.steps():
        return at_end
    return last_checkpoint(run, warn).state.get("best_step")


def step_named(run: RunDirectory, which: str | int, warn: Callable[[str], None]) -> int:
    """The step for ``best`` or a number."""
    step, steps = (_best_step(run, warn) if which == "best" else which), run.steps()
    if which == "best" and step not in steps:
        raise RunError(
            f"{run.root} has no best checkpoint; train with --set checkpoint.best=true, or use --checkpoint last.",
            reason="no-best-checkpoint",
        )
    if not str(step).isdigit():
        raise UsageError(f"--checkpoint {which!r} must be best, last or a step.", reason="bad-checkpoint")
    if int(str(step)) not in steps:
        raise RunError(
            f"{run.root} has no checkpoint of step {step}; it has {', '.join(map(str, steps)) or 'none'}.",
            reason="no-such-checkpoint",
        )
    return int(str(step))


MOST_BYTES = 16 << 30
"""Bytes of a snapshot."""


def film_steps(count: int, steps: int) -> list[int]:
    """``count`` steps from 0 to ``steps``, both included, about evenly spaced on a log scale."""
    count = min(count, steps + 1)
    if count < 2:
        return [0]
    chosen = [0]
    for number in range(1, count):
        even = round(steps ** ((number - 1) / (count - 2))) if count > 2 else steps
        chosen.append(min(max(even, chosen[-1] + 1), steps - (count - 1 - number)))
    return chosen


def save_snapshot(run: RunDirectory, step: int, tensors: Mapping[str, Tensor]) -> None:
    """Writes the weights of a step atomically."""
    file = run.snapshot(step)
    if not file.is_file():  # same run, same step: identical content
        file.parent.mkdir(parents=True, exist_ok=True)
        plain = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
        content = save(plain, {"step": str(step)})
        # the checksum first: never a snapshot without one
        write_json(run.snapshot_manifest(step), {"schema": SCHEMA, "sha256": sha256(content).hexdigest()})
        write_atomically(file, content)


def read_snapshot(run: RunDirectory, step: int) -> dict[str, Tensor]:
    """The weights at a step, verified by checksum."""
    file = run.snapshot(step)
    if not file.is_file():
        saved = ", ".join(map(str, run.film())) or "none"
        raise RunError(
            f"{run.root} has no snapshot of step {step}; its film has the steps: {saved}.", reason="no-such-snapshot"
        )
    content, manifest = read_bytes(file, most=MOST_BYTES), run.snapshot_manifest(step)
    if sha256(content).hexdigest() != _checksum(manifest):
        raise DamagedCheckpoint(f"{file} is damaged: its sha256 is not the one in {manifest.name}.", reason="damaged-snapshot")
    try:
        return dict(load(content))
    except (SafetensorError, OSError) as error:
        raise DamagedCheckpoint(f"{file} cannot be read ({error}).", reason="unreadable-snapshot") from error


def _checksum(manifest: Path) -> str:
    try:
        return str(read_json(manifest)["sha256"])
    except (RunError, KeyError, TypeError) as error:
        raise DamagedCheckpoint(f"{manifest} is damaged ({error}).", reason="damaged-manifest") from error


def moments(run: RunDirectory) -> list[int]:
    """The steps of the film and of the last checkpoint; raises if there is no film."""
    if not run.film():
        raise RunError(
            f"{run.root} has no film; train with --set checkpoint.film=12 to keep twelve snapshots.", reason="no-film"
        )
    return sorted({*run.film(), *run.steps()[-1:]})
