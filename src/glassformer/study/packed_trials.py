"""Trials that travel: the records of a study's finished trials in one file, and from it into a folder on another machine.

``glassformer study pack`` and ``study add``. A folder of studies at several sizes, or on several sets, is one file, too: its
list, and what a file of one study has for each of them. Imports no torch.
"""

from __future__ import annotations

import gzip
import json
import os
import zlib
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from glassformer.foundation.errors import RunError, UsageError
from glassformer.foundation.files import read_json_object, read_text, write_atomically
from glassformer.foundation.plugins import plugin_checksums
from glassformer.foundation.yaml_text import parse_yaml
from glassformer.runs.directory import RunDirectory
from glassformer.study.directory import StudyDirectory, is_plain, parse_begun
from glassformer.study.several_studies import KINDS, SetStudy, SizeStudy, several_in
from glassformer.study.trial_record import MOST_BYTES, checked_record, record_of, write_record

SCHEMA = 1
KIND = ("training code", "plugins", "torch", "device", "precision")
"""What trials of one study must share: the code that trains, and the kind of device, whatever machine it is in."""
AREAS = ("tuning", "trials")


def pack(folder: Path, out: Path) -> int:
    """Writes all finished trials of the study or studies in a folder into one file (compressed if its name ends in .gz).

    Gives their number. A study of the list that has not begun is left out.
    """
    if (kind := several_in(folder)) is None:
        document = _packed(StudyDirectory(folder))
        count = len(document["trials"])
    else:
        listed = kind.listed(folder)
        begun = [name for name in listed["names"] if StudyDirectory(folder / name).exists()]
        studies = {name: _packed(StudyDirectory(folder / name)) for name in begun}
        document = {"list": {"file": kind.FILE, **listed}, "studies": studies}
        count = sum(len(one["trials"]) for one in studies.values())
    text = json.dumps({"schema": SCHEMA, **document}, indent=1, sort_keys=True) + "\n"
    write_atomically(out, gzip.compress(text.encode(), mtime=0) if out.suffix == ".gz" else text)
    return count


def _packed(study: StudyDirectory) -> dict[str, Any]:
    """One study: what begins it elsewhere, and the records of its finished trials by their folders."""
    study.plan()  # refuses what is not a study
    trials = {}
    for area in AREAS:
        for state in sorted((study.root / area).glob("*/*/state.json")):
            run = RunDirectory(state.parent)
            if run.read_state()["status"] in ("finished", "diverged"):
                trials[str(state.parent.relative_to(study.root))] = record_of(run)
    head = {file.name: read_text(file, most=MOST_BYTES) for file in _about(study) if file.is_file()}
    return {"study": head, "trials": trials}


def _about(study: StudyDirectory) -> tuple[Path, ...]:
    """What makes an empty folder the same study: its plan, and the facts, checks and tuned settings of its variants."""
    return study.plan_file, study.variants_file, study.earlier_file


@dataclass
class Added:
    """What ``add`` did: trials that are new here, those that were here already, and those whose values differ from ours."""

    new: list[str] = field(default_factory=list)
    known: list[str] = field(default_factory=list)
    different: list[str] = field(default_factory=list)


def add(folder: Path, file: Path) -> Added:
    """Adds the trials of a packed study, or of several. Doing it again changes nothing; what is here is never replaced.

    A folder that is no study yet becomes what was packed. Trials of another plan, other training code or another kind of
    machine are refused: a verdict would compare more than its change.
    """
    kind, listed, packed = _read(file)
    here = several_in(folder)
    if here is not kind and (here is not None or StudyDirectory(folder).exists()):
        packs, holds = ("one study" if one is None else f"several studies ({one.FILE})" for one in (kind, here))
        raise UsageError(
            f"{file} has {packs} and {folder} has {holds}; add a file to what it was packed from, or to a new folder.",
            reason="one-or-several",
        )
    if here is not None and (ours := here.listed(folder)) != listed:
        raise UsageError(f"{file} is not of the studies in {folder}: it lists {listed}, not {ours}.", reason="other-study")
    with ExitStack() as locks:
        studies = {name: StudyDirectory(folder / name) for name in packed}
        for study in studies.values():
            locks.enter_context(study.alone())
        for name, study in studies.items():  # all of it, before anything is written
            _require_fits(study, packed[name], file)
        if kind is not None:
            kind.begin(folder, **listed)
        added = Added()
        for name, study in studies.items():
            _write(study, packed[name], added, Path(name))
    return added


def _require_fits(study: StudyDirectory, packed: Mapping[str, Any], file: Path) -> None:
    """Raises unless its trials can stand beside those that are here, or its plan can begin a study."""
    if study.exists():
        _require_same_plan(study, packed, file)
    else:
        parse_begun(_plan(packed, file), file / study.plan_file.name)
    shared = _kinds(study)
    for name, record in packed["trials"].items():
        kind = _kind(_environment(record))
        shared = shared or kind
        if kind != shared:
            key = next(key for key in KIND if kind[key] != shared[key])
            raise UsageError(
                f"{file}: {name} was trained with another {key} ({kind[key]}) than the trials here ({shared[key]}); "
                "pairs must share it. Add it to a study of its own.",
                reason="other-kind",
            )


def _write(study: StudyDirectory, packed: Mapping[str, Any], added: Added, name: Path) -> None:
    """Writes what is not here, and says in ``added`` what became of each trial; ``name``: the study's, before its trials'."""
    for place in () if study.exists() else _about(study):
        if place.name in packed["study"]:
            write_atomically(place, packed["study"][place.name])
    for trial, record in packed["trials"].items():
        folder, own = study.root / trial, record["files"]
        if not (folder / "state.json").is_file():
            write_record(folder, record)
            became = added.new
        else:
            same = all(_same(folder / one, own[one]) for one in own if one.startswith("evaluations/"))
            became = added.known if same else added.different
        became.append(str(name / trial))


def _read(file: Path) -> tuple[type[SizeStudy] | type[SetStudy] | None, dict[str, Any], dict[str, dict[str, Any]]]:
    """A packed file, all of it checked: which list it has, what stands in it, and its studies by name.

    Of one study there is no list, and its name is empty: it goes into the folder itself.
    """
    document = _document(file)
    try:
        if "studies" not in document:
            return None, {}, {"": _checked(document, file)}
        kind = {one.FILE: one for one in KINDS}[document["list"]["file"]]
        listed, studies = kind.parse_list(document["list"]), document["studies"]
        json.dumps(listed, ensure_ascii=False).encode()  # it can be written
        if not studies.keys() <= {*listed["names"]}:
            raise RunError(f"{file} has a study that its list does not name.", reason="foreign-file")
        return kind, listed, {name: _checked(one, file) for name, one in studies.items()}
    except (AttributeError, KeyError, TypeError, ValueError, RecursionError) as error:
        raise RunError(f"{file} is damaged ({type(error).__name__}: {error}); pack it again.", reason="damaged") from error


def _document(file: Path) -> dict[str, Any]:
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
    except (OSError, EOFError, ValueError, RecursionError, zlib.error) as error:
        raise RunError(f"{file} is not a packed study ({error}).", reason="damaged") from error
    shapes = ({"study", "trials"}, {"list", "studies"})
    if not isinstance(document, dict) or document.get("schema") != SCHEMA or not any(one <= document.keys() for one in shapes):
        raise RunError(f"{file} is not a packed study: write one with `glassformer study pack`.", reason="damaged")
    return document


def _checked(packed: dict[str, Any], file: Path) -> dict[str, Any]:
    """One study of a file: records unchanged since they were packed, no name that leads elsewhere, and what we read is there.

    What is none of this raises, if only a KeyError, TypeError or ValueError.
    """
    texts = dict(packed["study"])
    for name, record in packed["trials"].items():
        area, *rest = name.split("/")
        if area not in AREAS or len(rest) != 2 or not all(is_plain(one) for one in rest):
            raise RunError(f"{file}: {name!r} is no trial's folder.", reason="foreign-file")
        texts |= {f"{name}/{own}": text for own, text in checked_record(record).items()}
        _kind(_environment(record))
    for name, text in texts.items():
        text.encode()
        if name.endswith(".json") and not isinstance(json.loads(text), dict):
            raise ValueError(f"{name} is no object")
    _plan(packed, file)["recipes"].keys()
    return packed


def _plan(packed: Mapping[str, Any], file: Path) -> Any:
    return parse_yaml(packed["study"]["plan.yaml"], f"{file}: plan.yaml")


def _require_same_plan(study: StudyDirectory, packed: Mapping[str, Any], file: Path) -> None:
    """Raises unless every variant that both have is the same recipe."""
    theirs, ours = _plan(packed, file)["recipes"], study.recipes()
    other = [name for name in theirs.keys() & ours.keys() if theirs[name] != ours[name]]
    if other or not theirs.keys() & ours.keys():
        what = f"the recipe of {sorted(other)[0]!r} differs" if other else "they share no variant"
        raise UsageError(f"{file} is not of the study in {study.root}: {what}.", reason="other-study")


def _environment(record: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(record["files"]["environment.json"])
    return found


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
