"""Records: every run of the atlas as a line of JSON, values by document, without weights; append-only. Imports no torch.

A portion is a file of lines: ``machine`` (code, torch, device), ``text`` (documents and their weights), ``variant`` (cost and
checks of a row at a size), ``speed`` (of its steps, over the baseline's), ``trial``. Values are nats per token times 1e5, as
whole numbers. Words are computed from these lines alone (``cells.py``), at any time.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields
from importlib import resources
from pathlib import Path
from typing import Any, final

import numpy as np

from glassformer.atlas.protocol import BASELINE, Job
from glassformer.foundation.errors import RunError, UsageError
from glassformer.foundation.files import sha256_of_bytes, write_atomically

SCALE = 1e5
MOST_BYTES = 256 << 20
JOB = tuple(one.name for one in fields(Job))
KEYS = {
    "machine": {"id", "about"},
    "text": {"text", "documents", "weights"},
    "variant": {"row", "size", "base", "machine", "parameters", "leak"},
    "speed": {"row", "size", "base", "machine", "value"},
    "trial": {*JOB, "recipe", "against", "machine", "documents", "values", "problem"},
}
"""What a line of each kind must have, besides ``k``."""


def records_folder() -> Path:
    """The records that come with the package."""
    return Path(str(resources.files("glassformer"))) / "atlas" / "records"


@dataclass(frozen=True)
class TrialRecord:
    """One run: its job, and what came out. ``values``: nats per token by document; None where it failed."""

    job: Job
    recipe: str
    against: str
    """The recipe of the baseline that it is compared with."""
    machine: str
    documents: str
    values: np.ndarray | None
    problem: str | None
    tokens_per_second: float | None
    seconds: float | None
    file: str

    @property
    def key(self) -> tuple[Any, ...]:
        """Two runs with the same key must have the same bits."""
        return self.job, self.recipe, self.machine, self.documents


@final
@dataclass
class Records:
    """The lines of many portions, by kind. ``contradictions``: later runs whose values differ from those of the same key."""

    machines: dict[str, dict[str, Any]] = field(default_factory=dict)
    texts: dict[str, dict[str, Any]] = field(default_factory=dict)
    """By checksum of the documents."""
    variants: dict[tuple[str, str, str, str], dict[str, Any]] = field(default_factory=dict)
    """By row, size, base and machine."""
    speeds: dict[tuple[str, str, str, str], float] = field(default_factory=dict)
    """Tokens per second over the baseline's, by row, size, base and machine."""
    trials: dict[tuple[Any, ...], TrialRecord] = field(default_factory=dict)
    contradictions: list[tuple[TrialRecord, TrialRecord]] = field(default_factory=list)

    @classmethod
    def load(cls, places: Iterable[Path]) -> Records:
        """Of files, or of all portions in folders."""
        found = cls()
        for place in places:
            files = sorted(place.glob("*.jsonl*")) if place.is_dir() or place == records_folder() else [place]
            for file in files:
                for line in read_portion(file):
                    found.include(line, file.name)
        return found

    def include(self, line: Mapping[str, Any], file: str) -> bool:
        """Adds a line; False for a run that was there already."""
        kind = line["k"]
        if kind == "machine":
            self.machines.setdefault(line["id"], dict(line["about"]))
            return True
        if kind == "text":
            self.texts.setdefault(line["documents"], dict(line))
            return True
        if kind == "variant":
            self.variants.setdefault((line["row"], line["size"], line["base"], line["machine"]), dict(line))
            return True
        if kind == "speed":
            self.speeds.setdefault((line["row"], line["size"], line["base"], line["machine"]), float(line["value"]))
            return True
        one = _trial(line, file)
        known = self.trials.setdefault(one.key, one)
        if known is not one and (known.problem != one.problem or not _same(known.values, one.values)):
            self.contradictions.append((known, one))
        return known is one

    def select(self, **wanted: Any) -> list[TrialRecord]:
        """The trials whose job has these values, by seed."""
        found = [one for one in self.trials.values() if all(getattr(one.job, key) == value for key, value in wanted.items())]
        return sorted(found, key=lambda one: one.job.seed)

    def alike(self, machine: str, text: str, size: str, base: str, row: str = BASELINE) -> frozenset[str]:
        """The machines whose baseline here (or another row) has the bits of this one's: other code that trains the same. They
        have runs of it in common, all of them equal."""
        by_machine: dict[str, dict[tuple[Any, ...], TrialRecord]] = {machine: {}}
        for one in self.select(row=row, text=text, size=size, base=base, area="trial"):
            by_machine.setdefault(one.machine, {})[one.job, one.recipe, one.documents] = one
        own, kind = by_machine[machine], self.kind(machine)
        return frozenset(
            name
            for name, runs in by_machine.items()
            if name == machine
            or (
                self.kind(name) == kind
                and own.keys() & runs.keys()
                and all(_same(own[key].values, runs[key].values) for key in own.keys() & runs.keys())
            )
        )

    def kind(self, machine: str) -> dict[str, Any]:
        """What two machines must share besides their code."""
        return {key: value for key, value in self.machines.get(machine, {}).items() if key != "code"}


def trial_line(job: Job, **outcome: Any) -> dict[str, Any]:
    """The line of a run; ``values`` are nats per token by document."""
    values = outcome.pop("values")
    whole = None if values is None else [round(float(value) * SCALE) for value in values]
    return {"k": "trial", **asdict(job), **outcome, "values": whole}


def _trial(line: Mapping[str, Any], file: str) -> TrialRecord:
    job = Job(**{key: line[key] for key in JOB})
    values = None if line["values"] is None else np.asarray(line["values"], dtype=np.float64) / SCALE
    rest = (line["problem"], line.get("tokens_per_second"), line.get("seconds"))
    return TrialRecord(job, line["recipe"], line["against"], line["machine"], line["documents"], values, *rest, file)


def _same(one: np.ndarray | None, other: np.ndarray | None) -> bool:
    if one is None or other is None:
        return one is other
    return one.shape == other.shape and bool(np.array_equal(one, other))


def read_portion(file: Path) -> Iterator[dict[str, Any]]:
    """The lines of a portion. A last line that was cut short (a killed process) is left out; anything else damaged raises."""
    try:
        content = file.read_bytes()
        if file.suffix == ".gz":
            with gzip.open(file) as stream:
                content = stream.read(MOST_BYTES + 1)
    except FileNotFoundError:
        raise UsageError(f"{file} does not exist.", reason="no-such-file") from None
    except (OSError, EOFError) as error:
        raise RunError(f"{file} is not a portion of the atlas ({error}).", reason="damaged") from error
    if len(content) > MOST_BYTES:
        raise RunError(f"{file} is larger than {MOST_BYTES >> 20} MiB.", reason="too-large")
    lines = content.splitlines(keepends=True)
    for number, text in enumerate(lines, 1):
        try:
            line = json.loads(text)
        except ValueError as error:
            if number == len(lines) and not text.endswith(b"\n"):
                return
            raise RunError(f"{file}, line {number} is damaged ({error}).", reason="damaged") from error
        kind = line.get("k") if isinstance(line, dict) else None
        if kind not in KEYS or KEYS[kind] - line.keys():
            raise RunError(f"{file}, line {number} is not a record of the atlas.", reason="damaged")
        yield line


@dataclass
class Added:
    """What ``add`` did."""

    file: Path | None
    new: int = 0
    known: int = 0
    contradictions: list[tuple[TrialRecord, TrialRecord]] = field(default_factory=list)


def add(portion: Path, folder: Path) -> Added:
    """Copies the new lines of a portion into ``folder`` as one compressed file named by its checksum. Nothing is replaced.

    A run that is there already with the same values is left out; one with other values is added, and both stay.
    """
    folder.mkdir(parents=True, exist_ok=True)
    there, added, lines = Records.load([folder]), Added(None), []
    before, others = len(there.contradictions), len(there.variants) + len(there.speeds)
    for line in read_portion(portion):
        known = len(there.contradictions)
        fresh = there.include(line, portion.name)
        different = len(there.contradictions) > known
        if line["k"] == "trial":
            added.new += fresh or different
            added.known += not (fresh or different)
        if line["k"] != "trial" or fresh or different:
            lines.append(json.dumps(line, separators=(",", ":"), ensure_ascii=False) + "\n")
    added.contradictions = there.contradictions[before:]
    if added.new or len(there.variants) + len(there.speeds) > others:  # a row that leaks has no runs, only its checks
        content = "".join(lines).encode()
        added.file = folder / f"{sha256_of_bytes(content)[:12]}.jsonl.gz"
        write_atomically(added.file, gzip.compress(content, mtime=0))
    return added
