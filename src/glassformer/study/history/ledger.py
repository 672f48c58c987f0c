"""The ledger: all studies of one question are one group-sequential study, whose seeds add up.

A question is a baseline, a change, a text and a metric, by content, not by name. The ledger lies in the cache folder, beside
the stored trials, in one file per text and metric. A study is entered before its first trial and stores a copy of the earlier
entries, so moving it does not change its verdicts. Earlier seeds are analysed with the study's own where the same code trained
them; other studies of the question, and those whose baseline or change differs by less than a tenth in some number, only
spend alpha. The first margin stands. A study that was deleted or never finished stays in the ledger. Imports no torch.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, final

import numpy as np

from glassformer.data.disk_cache import cache_folder
from glassformer.foundation.config import fingerprint
from glassformer.foundation.distributions import Floats
from glassformer.foundation.files import read_versioned, write_json
from glassformer.foundation.locks import locked
from glassformer.study.planning.power import FEWEST_SEEDS
from glassformer.study.statistics.corrections import EXPLORATORY, Looks, study_share

SCHEMA = 3
MOST_BYTES = 1 << 30
AREA = "ledger"
BEGUN = "begun"
"""Instead of a verdict, for a study that has not finished."""
NEAR = 0.1
"""A baseline whose numbers all move by less than this fraction is the same to a reader."""


def pack(values: Floats) -> str:
    """A table of numbers as text, exactly."""
    return base64.b64encode(zlib.compress(np.ascontiguousarray(values, dtype="<f8").tobytes())).decode("ascii")


def unpack(text: str, rows: int) -> Floats:
    """The inverse of ``pack``."""
    return np.frombuffer(zlib.decompress(base64.b64decode(text)), dtype="<f8").reshape(rows, -1).astype(np.float64)


@dataclass(frozen=True)
class Attempt:
    """One change in one study. ``plan``, ``question`` and ``code`` are fingerprints."""

    study: str
    plan: str
    question: str
    code: str
    """Of everything that trains a run besides recipe and seed: code, plugins, training text, parents."""
    name: str
    margin: float
    labels: tuple[int, ...]
    """The planned seeds, in order."""
    base: Mapping[str, Any]
    """The baseline's settings, to find neighbouring questions."""
    sets: Mapping[str, Any]
    """The settings of the change."""
    word: str = BEGUN
    analyses: tuple[tuple[int, float], ...] = ()
    """At how many of its own seeds it was judged, and the fraction of alpha that each spent."""
    left: int = 1
    """The planned changes of the study that were not found better or worse: what Holm's method goes on counting."""
    failed: tuple[int, ...] = ()
    base_failed: tuple[int, ...] = ()
    """Seeds whose training failed, of the change and of the baseline."""
    runs: int = 0
    base_means: tuple[float, ...] = ()
    differences: str | None = None
    """By seed and document, packed; None where the seeds cannot be analysed with others (tuned, unpaired, failed)."""

    def same_plan(self, other: Attempt) -> bool:
        """The same study of the same change, whichever folder it was run in."""
        return (self.plan, self.question, self.code) == (other.plan, other.question, other.code)

    def neighbours(self, other: Attempt) -> bool:
        """Baseline and change differ by less than a tenth in some numbers, and in nothing else."""
        if self.question == other.question or self.sets.keys() != other.sets.keys() or self.base.keys() != other.base.keys():
            return False
        pairs = ((self.base, other.base), (self.sets, other.sets))
        return all(_near(value, theirs[key]) for own, theirs in pairs for key, value in own.items())

    @property
    def spends(self) -> bool:
        """Whether it could decide: a pilot with too few seeds could not, and one without any usable run showed nothing."""
        return bool(self.analyses) if self.word != BEGUN else len(self.labels) >= FEWEST_SEEDS


def _near(one: Any, other: Any) -> bool:
    numbers = all(isinstance(value, int | float) and not isinstance(value, bool) for value in (one, other))
    return bool(one == other or (numbers and abs(one - other) < NEAR * max(abs(one), abs(other))))


@dataclass(frozen=True)
class Earlier:
    """Earlier studies of one change's question, and of neighbouring ones, oldest first; and this study's own seeds and code."""

    studies: tuple[Attempt, ...] = ()
    question: str = ""
    code: str = ""
    labels: tuple[int, ...] = ()

    @classmethod
    def of(cls, own: Attempt, attempts: Sequence[Attempt]) -> Earlier:
        """The same plan in another folder is the same study; so is the same folder after an update of the code."""
        related = (one for one in attempts if one.question == own.question or one.neighbours(own))
        others = (one for one in related if not one.same_plan(own) and (one.study, one.plan) != (own.study, own.plan))
        return cls(tuple(others), own.question, own.code, own.labels)

    @property
    def own_question(self) -> list[Attempt]:
        return [one for one in self.studies if one.question == self.question]

    @property
    def pooled(self) -> list[Attempt]:
        """The studies whose seeds are analysed with this one's."""
        return [one for one in self.own_question if one.code == self.code and one.differences is not None]

    @property
    def number(self) -> int:
        """The how-manieth study of the question this is."""
        return 1 + sum(one.spends for one in self.studies)

    @property
    def share(self) -> float:
        """The fraction of alpha that this study may spend."""
        return study_share(self.number)

    @property
    def margin(self) -> float | None:
        """The margin of the first study of the question, which stands."""
        return next((one.margin for one in self.own_question), None)

    @property
    def left(self) -> int:
        """The most hypotheses that an earlier study of the question left open."""
        return max((one.left for one in self.own_question if one.spends), default=1)

    def looks(self, seeds: Sequence[int], alpha: float, *, exploratory: bool = False) -> Looks:
        """The analyses of this study after those of the pooled ones."""
        seen, before = set[int](), dict[int, float]()
        for one in self.pooled:
            for own, spent in one.analyses:
                total = len(seen | set(one.labels[:own]))
                before[total] = before.get(total, 0.0) + spent
            seen |= set(one.labels[: one.runs])
        share = min(self.share, EXPLORATORY) if exploratory else self.share
        pooled = len(seen - set(self.labels))
        return Looks(tuple(seeds), alpha, share, pooled, tuple(sorted(before.items())))

    def rows(self) -> tuple[tuple[int, ...], list[float], list[Floats]]:
        """The seeds of pooled studies that this one does not have: labels, the baseline's means, differences by document."""
        found: dict[int, tuple[float, Floats]] = {}
        for one in self.pooled:
            table = unpack(str(one.differences), one.runs)
            for label, mean, row in zip(one.labels, one.base_means, table):
                if label not in self.labels:
                    found.setdefault(label, (mean, row))
        return tuple(found), [mean for mean, _ in found.values()], [row for _, row in found.values()]

    def failures(self) -> tuple[int, int, int]:
        """Over earlier runs by the same code: failed runs of the change, of the baseline, and runs of each."""
        same = [one for one in self.own_question if one.code == self.code]
        own, base, runs = set[int](), set[int](), set[int]()
        for one in same:
            own, base = own | set(one.failed), base | set(one.base_failed)
            runs |= set(one.labels[: one.runs]) | set(one.failed)
        others = runs - set(self.labels)
        return len(own & others), len(base & others), len(others)

    def remarks(self, margin: float) -> list[str]:
        """Sentences about earlier studies."""
        sentences, first = [], self.margin
        counted = [one for one in self.studies if one.spends]
        if counted:
            names = ", ".join(dict.fromkeys(f"{one.study} ({one.word})" for one in counted))
            seeds = len(self.rows()[0])
            known = {label for one in self.pooled for label in one.labels[: one.runs]}
            joined = f"{seeds} earlier seeds are analysed with its own" if seeds else "only its own seeds are analysed"
            joined += f", and it may spend {100 * study_share(self.number):.2g} % of the chance of a false alarm"
            joined = "none of its seeds is new, so it adds nothing" if known >= {*self.labels} else joined
            sentences.append(f"Study {self.number} of this question, after {names}: {joined}.")
            if seeds:
                sentences.append(
                    "The means of this verdict are over all these seeds, those of the table over this study's own."
                )
        if first is not None and first != margin:
            sentences.append(f"The margin of the first study, {first:g}, stands; {margin:g} is exploratory.")
        return sentences

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "studies": [asdict(one) for one in self.studies]}

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Earlier:
        studies = tuple(_attempt(one) for one in document["studies"])
        return cls(studies, document["question"], document["code"], tuple(document["labels"]))


def _attempts(document: Mapping[str, Any]) -> list[Attempt]:
    return [_attempt(one) for one in document["attempts"]]


def _attempt(document: Mapping[str, Any]) -> Attempt:
    lists = {key: tuple(document[key]) for key in ("labels", "failed", "base_failed", "base_means")}
    return Attempt(**{**document, **lists, "analyses": tuple((n, spent) for n, spent in document["analyses"])})


@final
@dataclass(frozen=True)
class Ledger:
    """The entries of all studies on one text by one metric."""

    file: Path

    @classmethod
    def of(cls, text: str, metric: str) -> Ledger:
        return cls(cache_folder() / AREA / f"{fingerprint([text, metric])[:40]}.json")

    def attempts(self) -> list[Attempt]:
        if not self.file.is_file():
            return []
        remedy = "it counts how often a question was studied: restore it"
        return read_versioned(self.file, SCHEMA, _attempts, remedy, reason="damaged-ledger", most=MOST_BYTES)

    def record(self, attempts: Sequence[Attempt]) -> None:
        """Replaces the entries of the same plan and change, each in its place, or adds them."""
        with self._locked():
            every = self.attempts()
            for new in attempts:
                places = [at for at, one in enumerate(every) if one.same_plan(new)]
                if places:
                    every[places[0]] = new
                else:
                    every.append(new)
            self._write(every)

    def begin(self, attempts: Sequence[Attempt]) -> list[Attempt]:
        """Adds entries for a new study, unless the same plan has some; returns the entries that were there before.

        Under one lock, so that of two studies started together one sees the other.
        """
        with self._locked():
            before = self.attempts()
            new = [one for one in attempts if not any(one.same_plan(other) for other in before)]
            if new:
                self._write([*before, *new])
            return before

    def withdraw(self, attempts: Sequence[Attempt]) -> None:
        """Removes entries of these studies that have no verdict."""
        with self._locked():
            before = self.attempts()
            begun = [one for one in before if one.word == BEGUN]
            gone = [one for one in begun if any(one.study == own.study and one.same_plan(own) for own in attempts)]
            if gone:
                self._write([one for one in before if one not in gone])

    def _locked(self) -> AbstractContextManager[bool]:
        self.file.parent.mkdir(parents=True, exist_ok=True)
        return locked(self.file.with_suffix(".lock"), wait=True)

    def _write(self, attempts: Sequence[Attempt]) -> None:
        write_json(self.file, {"schema": SCHEMA, "attempts": [asdict(one) for one in attempts]})
