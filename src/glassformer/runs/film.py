"""A run's film: snapshots of the weights during training, denser at the start.

One safetensors file per snapshot, with its sha256 in a JSON file, verified on every load. Without optimizer state: use a
checkpoint to resume.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from glassformer.foundation.errors import DamagedCheckpoint, RunError
from glassformer.foundation.files import read_bytes, read_json, write_atomically, write_json
from glassformer.runs.directory import RunDirectory

SCHEMA = 1
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
