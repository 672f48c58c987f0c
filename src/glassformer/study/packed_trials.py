"""Trials that travel: what a verdict needs of a trial, without its weights, as text; and one file of them for a study.

A record holds the small files of a finished run (recipe, environment, state, evaluations and their metrics): about 10 KB. It
comes back from a machine that shares no disk with the driver, or from another machine by ``glassformer study pack`` and
``study add``. Imports no torch.
"""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from glassformer.foundation.config import fingerprint
from glassformer.foundation.errors import RunError, UsageError
from glassformer.foundation.files import read_json_object, read_text, write_atomically
from glassformer.foundation.metrics import VALIDATION
from glassformer.foundation.plugins import plugin_checksums
from glassformer.foundation.yaml_text import parse_yaml
from glassformer.runs.directory import RunDirectory
from glassformer.study.directory import StudyDirectory

SCHEMA = 1
MOST_BYTES = 256 << 20
"""Bytes of a packed study, unpacked."""
KIND = ("training code", "plugins", "torch", "device", "precision")
"""What trials of one study must share: the code that trains, and the kind of device, whatever machine it is in."""


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
    files, run = _checked(record), RunDirectory(folder)
    for name in sorted(files, key=lambda name: name == run.state_file.name):
        place = folder / name
        place.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(place, files[name])


def _checked(record: Mapping[str, Any]) -> dict[str, str]:
    """The files of a record: unchanged since it was made, and with no name that leads out of a run's folder."""
    files = record.get("files")
    if not isinstance(files, dict) or record.get("checksum") != fingerprint(files):
        raise RunError("a trial's record does not have its checksum: it was damaged on its way.", reason="damaged")
    run = RunDirectory(Path())
    allowed = {str(run.recipe_file), str(run.environment_file), str(run.state_file), str(run.metrics_file)}
    for name, text in files.items():
        inside = name in allowed or (Path(name).parent == run.evaluations and Path(name).suffix == ".json")
        if not inside or not isinstance(text, str):
            raise RunError(f"{name!r} is no file of a trial's record.", reason="foreign-file")
    return files


def pack(study: StudyDirectory, out: Path) -> int:
    """Writes all finished trials of a study into one file (compressed if its name ends in .gz); gives their number."""
    study.plan()  # refuses what is not a study
    trials = {}
    for area in ("tuning", "trials"):
        for state in sorted((study.root / area).glob("*/*/state.json")):
            run = RunDirectory(state.parent)
            if run.read_state()["status"] in ("finished", "diverged"):
                trials[str(state.parent.relative_to(study.root))] = record_of(run)
    head = {file.name: read_text(file, most=MOST_BYTES) for file in _about(study) if file.is_file()}
    text = json.dumps({"schema": SCHEMA, "study": head, "trials": trials}, indent=1, sort_keys=True) + "\n"
    write_atomically(out, gzip.compress(text.encode(), mtime=0) if out.suffix == ".gz" else text)
    return len(trials)


def _about(study: StudyDirectory) -> tuple[Path, ...]:
    """What makes an empty folder the same study: its plan, and the facts, checks and tuned settings of its variants."""
    return study.plan_file, study.variants_file, study.earlier_file


@dataclass
class Added:
    """What ``add`` did: trials that are new here, those that were here already, and those whose values differ from ours."""

    new: list[str] = field(default_factory=list)
    known: list[str] = field(default_factory=list)
    different: list[str] = field(default_factory=list)


def add(study: StudyDirectory, file: Path) -> Added:
    """Adds the trials of a packed study. Doing it again changes nothing; what is here is never replaced.

    A folder that is no study yet becomes the packed one. Trials of another plan, other training code or another kind of machine
    are refused: a verdict would compare more than its change.
    """
    document = _read(file)
    with study.alone():
        if study.exists():
            _require_same_plan(study, document, file)
        files = {name: _checked(record) for name, record in document["trials"].items()}  # all of it, before anything is written
        shared = _kinds(study)
        for name, own in files.items():
            area, *rest = Path(name).parts
            if area not in ("tuning", "trials") or len(rest) != 2 or ".." in rest:
                raise RunError(f"{file}: {name!r} is no trial's folder.", reason="foreign-file")
            kind = _kind(json.loads(own["environment.json"]))
            shared = shared or kind
            if kind != shared:
                key = next(key for key in KIND if kind[key] != shared[key])
                raise UsageError(
                    f"{file}: {name} was trained with another {key} ({kind[key]}) than the trials here ({shared[key]}); "
                    "pairs must share it. Add it to a study of its own.",
                    reason="other-kind",
                )
        for place in () if study.exists() else _about(study):
            if place.name in document["study"]:
                write_atomically(place, document["study"][place.name])
        added = Added()
        for name, own in files.items():
            folder = study.root / name
            if not (folder / "state.json").is_file():
                write_record(folder, document["trials"][name])
                added.new.append(name)
            elif all(_same(folder / one, own[one]) for one in own if one.startswith("evaluations/")):
                added.known.append(name)
            else:
                added.different.append(name)
    return added


def _read(file: Path) -> dict[str, Any]:
    try:
        if file.suffix == ".gz":
            with gzip.open(file) as stream:
                content = stream.read(MOST_BYTES + 1)
            if len(content) > MOST_BYTES:
                raise RunError(f"{file} is larger than {MOST_BYTES >> 20} MiB unpacked.", reason="too-large")
            document = json.loads(content)
        else:
            document = read_json_object(file, most=MOST_BYTES)
    except FileNotFoundError:
        raise UsageError(f"{file} does not exist.", reason="no-such-file") from None
    except (OSError, EOFError, ValueError) as error:
        raise RunError(f"{file} is not a packed study ({error}).", reason="damaged") from error
    if not isinstance(document, dict) or document.get("schema") != SCHEMA or not {"study", "trials"} <= document.keys():
        raise RunError(f"{file} is not a packed study: write one with `glassformer study pack`.", reason="damaged")
    return document


def _require_same_plan(study: StudyDirectory, document: Mapping[str, Any], file: Path) -> None:
    """Raises unless every variant that both have is the same recipe."""
    theirs, ours = parse_yaml(document["study"]["plan.yaml"], str(file))["recipes"], study.recipes()
    other = [name for name in theirs.keys() & ours.keys() if theirs[name] != ours[name]]
    if other or not theirs.keys() & ours.keys():
        what = f"the recipe of {sorted(other)[0]!r} differs" if other else "they share no variant"
        raise UsageError(f"{file} is not of the study in {study.root}: {what}.", reason="other-study")


def _kind(environment: Mapping[str, Any]) -> dict[str, Any]:
    device = str(environment.get("device")).partition(":")[0]
    device = str(environment.get("device_name")) if device == "cuda" else device
    plugins = list(plugin_checksums(environment.get("plugins") or ()))
    values = (environment.get("code_sha256"), plugins, environment.get("torch"), device, environment.get("precision"))
    return dict(zip(KIND, values))


def _kinds(study: StudyDirectory) -> dict[str, Any] | None:
    """What the trials that are here share; None where there is none."""
    for state in sorted((study.root / "trials").glob("*/*/state.json")):
        run = RunDirectory(state.parent)
        if run.environment_file.is_file():
            return _kind(run.read_environment())
    return None


def _same(place: Path, text: str) -> bool:
    """Equal values; when and where they were measured may differ."""
    if not place.is_file() or os.path.getsize(place) > MOST_BYTES:
        return False
    ours, theirs = json.loads(read_text(place, most=MOST_BYTES)), json.loads(text)
    return all(ours.get(key) == theirs.get(key) for key in ("metrics", "units", "tainted"))
