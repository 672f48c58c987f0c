"""A run's film: snapshots of its weights alone, close together at the start; written while it trains, read to look at.

One safetensors file per snapshot, its sha256 in a JSON file beside it, compared at every reading. No optimizer, so nothing
trains on from one; the checkpoints are for that.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from glassformer.foundation.errors import DamagedCheckpoint, RunError
from glassformer.foundation.files import read_json, write_atomically, write_json
from glassformer.runs.directory import RunDirectory

SCHEMA = 1


def film_steps(count: int, steps: int) -> list[int]:
    """``count`` steps of 0 to ``steps``, both ends included, evenly spaced by their logarithm where whole numbers allow."""
    count = min(count, steps + 1)
    if count < 2:
        return [0]
    chosen = [0]
    for number in range(1, count):
        wanted = round(steps ** ((number - 1) / (count - 2))) if count > 2 else steps
        chosen.append(min(max(wanted, chosen[-1] + 1), steps - (count - 1 - number)))
    return chosen


def save_snapshot(run: RunDirectory, step: int, tensors: Mapping[str, Tensor]) -> None:
    """Writes the weights of a step, whole or not at all."""
    file = run.snapshot(step)
    if not file.is_file():  # the same step of the same run: the same bytes
        file.parent.mkdir(parents=True, exist_ok=True)
        plain = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
        content = save(plain, {"step": str(step)})
        write_json(run.snapshot_manifest(step), {"schema": SCHEMA, "sha256": sha256(content).hexdigest()})  # never one without
        write_atomically(file, content)


def load_snapshot(run: RunDirectory, step: int) -> dict[str, Tensor]:
    """The weights of a step of the film, every byte compared; films of versions that kept no sum are read as they are."""
    file = run.snapshot(step)
    if not file.is_file():
        held = ", ".join(map(str, run.film())) or "none"
        raise RunError(f"{run.root} has no snapshot of step {step}; its film has the steps: {held}.")
    content, manifest = file.read_bytes(), run.snapshot_manifest(step)
    if manifest.is_file() and sha256(content).hexdigest() != _sum(manifest):
        raise DamagedCheckpoint(f"{file} is damaged: its sha256 is not the one in {manifest.name}.")
    try:
        return dict(load(content))
    except (SafetensorError, OSError) as error:
        raise DamagedCheckpoint(f"{file} cannot be read ({error}).") from error


def _sum(manifest: Path) -> str:
    try:
        return str(read_json(manifest)["sha256"])
    except (RunError, KeyError, TypeError) as error:
        raise DamagedCheckpoint(f"{manifest} is damaged ({error}).") from error


def moments(run: RunDirectory) -> list[int]:
    """The steps of the film and of the last checkpoint; a sentence where there is no film."""
    if not run.film():
        raise RunError(f"{run.root} has no film; train with --set checkpoint.film=12 to keep twelve snapshots.")
    return sorted({*run.film(), *run.steps()[-1:]})
