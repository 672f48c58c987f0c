"""A trial as a record: what a verdict needs of a finished run, without its weights, as text by file name; and back to a folder.

A record holds the small files of the run (recipe, environment, state, evaluations and their metrics): about 10 KB. It comes
back from a machine that shares no disk with the driver, or from another machine in a packed study. Imports no torch.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from glassformer.foundation.config import fingerprint
from glassformer.foundation.errors import RunError
from glassformer.foundation.files import read_text, write_atomically
from glassformer.foundation.metrics import VALIDATION
from glassformer.runs.directory import RunDirectory
from glassformer.study.directory import is_plain

MOST_BYTES = 256 << 20
"""Bytes of a file of a record, and of a packed study, unpacked."""


def record_of(run: RunDirectory) -> dict[str, Any]:
    """A finished or diverged run as text by file name, with a checksum."""
    files = {file.name: read_text(file, most=MOST_BYTES) for file in (run.recipe_file, run.environment_file, run.state_file)}
    if run.metrics_file.is_file():
        lines = read_text(run.metrics_file, most=MOST_BYTES).splitlines(keepends=True)
        timed = [line for line in lines if '"tokens_per_second"' in line][-1:]
        files[run.metrics_file.name] = "".join(line for line in lines if f'"{VALIDATION}' in line or line in timed)
    for file in sorted(run.evaluations.glob("*.json")):
        files[f"{run.evaluations.name}/{file.name}"] = read_text(file, most=MOST_BYTES)
    return {"files": files, "checksum": fingerprint(files)}


def write_record(folder: Path, record: Mapping[str, Any]) -> None:
    """Writes a record as a run's folder; the state last, so that a folder is whole or not a finished run."""
    files, run = checked_record(record), RunDirectory(folder)
    for name in sorted(files, key=lambda name: name == run.state_file.name):
        place = folder / name
        place.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(place, files[name])


def checked_record(record: Mapping[str, Any]) -> dict[str, str]:
    """The files of a record: unchanged since it was made, and with no name that leads out of a run's folder."""
    files = record.get("files")
    if not isinstance(files, dict) or record.get("checksum") != fingerprint(files):
        raise RunError("a trial's record does not have its checksum: it was damaged on its way.", reason="damaged")
    run = RunDirectory(Path())
    allowed = {str(run.recipe_file), str(run.environment_file), str(run.state_file), str(run.metrics_file)}
    for name, text in files.items():
        own = name.removeprefix(f"{run.evaluations}/")
        inside = name in allowed or (own != name and is_plain(own) and Path(own).suffix == ".json")
        if not inside or not isinstance(text, str):
            raise RunError(f"{name!r} is no file of a trial's record.", reason="foreign-file")
    return files
