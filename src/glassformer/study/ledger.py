"""Every study of a folder -> how often a change was tried on a text, so that trying again does not look like finding.

One file beside the studies, ``.ledger.json``: a line per study and change, by what the baseline, the change and the text are,
never by their names. A study stands in it from its first trial on, and keeps a copy of what came before it, so its verdicts do
not depend on where it lies. A study that was removed or never finished stays in the ledger. Imports no torch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, final

from glassformer.foundation.errors import RunError
from glassformer.foundation.files import read_json, write_json
from glassformer.foundation.locks import locked
from glassformer.study.power import FEWEST_SEEDS

SCHEMA = 2
READABLE = (1, 2)
"""Lines of schema 1 have neither ``made`` nor ``question``."""
BEGUN = "begun"
"""Instead of a verdict: for a study that has not come to its end."""
SETS_FILE = "sets.json"
"""In a folder that holds the studies of several sets: the ledger stands beside that folder, not inside it."""
LATER_STUDIES = 0.2
"""The part of the permitted error that all further studies of a change have together, the first having had all of it."""


def share_of(number: int) -> float:
    """The part of the permitted error that the study of this number may spend on a change.

    A first study cannot know of later ones, so it spends all of it; 1, 1/2, 1/3 and so on, each corrected over those before
    it alone, would add up without end (five studies: 11 % instead of 5). From the second on the parts add up to
    ``LATER_STUDIES``, however many there are: 1 / (k (k - 1)) adds up to 1.
    """
    return 1.0 if number < 2 else LATER_STUDIES / (number * (number - 1))


@dataclass(frozen=True)
class Attempt:
    """One change in one study. ``plan``, ``base``, ``change`` and ``text`` are fingerprints; ``p`` is the corrected one."""

    study: str
    plan: str
    base: str
    change: str
    text: str
    name: str
    rules: str
    """Metric, split, looks and level in a fingerprint: what decides when p is small."""
    margin: float
    first_seed: int
    seeds: int
    verdict: str
    p: float | None
    made: str = ""
    """Training text, parents, plugins and tuning in a fingerprint: with others, the same recipes give other runs."""
    question: str = ""
    """Baseline, change and text again, without the keys of a recipe that only say when a run is saved and looked at."""

    @property
    def could_decide(self) -> bool:
        return self.seeds >= FEWEST_SEEDS

    def same_question(self, other: Attempt) -> bool:
        by_recipe = (self.base, self.change, self.text) == (other.base, other.change, other.text)
        return by_recipe or (self.question != "" and self.question == other.question)

    def same_plan(self, other: Attempt) -> bool:
        """The same study of the same change, whichever folder it was run in."""
        return (self.plan, self.change) == (other.plan, other.change) and self._made_alike(other)

    def _made_alike(self, other: Attempt) -> bool:
        return self.made == other.made or "" in (self.made, other.made)

    def overlaps(self, other: Attempt) -> bool:
        """Whether both used a seed: then they looked at the same run, or at one that differs by what was edited since."""
        return self.first_seed < other.first_seed + other.seeds and other.first_seed < self.first_seed + self.seeds

    def same_runs(self, other: Attempt) -> bool:
        """The very same runs, asked the same: no second chance, but whatever was corrected for then stays corrected for."""
        asked = (self.rules, self.first_seed, self.seeds) == (other.rules, other.first_seed, other.seeds)
        return asked and self._made_alike(other)


@dataclass(frozen=True)
class Earlier:
    """What came before a study for one of its changes: other attempts, and what judging the same runs once gave."""

    others: tuple[Attempt, ...] = ()
    same_runs: tuple[Attempt, ...] = ()
    overlapping: tuple[Attempt, ...] = ()

    @classmethod
    def of(cls, own: Attempt, attempts: Sequence[Attempt]) -> Earlier:
        """Sorts the attempts at the same question; the same plan is the same study, whichever folder it was run in.

        A pilot of too few seeds to decide anything was no attempt, unless this study judges its runs.
        """
        asked = [one for one in attempts if one.same_question(own) and not one.same_plan(own)]
        return cls(
            others=tuple(one for one in asked if not one.same_runs(own) and (one.could_decide or one.overlaps(own))),
            same_runs=tuple(one for one in asked if one.same_runs(own)),
            overlapping=tuple(one for one in asked if one.overlaps(own)),
        )

    def share(self, *, claim: str | None = None) -> float:
        """The part of the permitted error that this study has for a ``claim`` about the change: better, worse or same.

        Where an earlier study claimed the very same already, a false alarm has been raised or not: saying it again adds none.
        The opposite is another claim: else a study at a poor setting would make every later finding free. None: a claim
        that the ledger does not keep, so nobody knows whether it was made.
        """
        claimed = any(one.verdict == claim for one in (*self.others, *self.same_runs))
        return 1.0 if claimed else share_of(len(self.others) + 1)

    def next_share(self, seeds: int) -> float:
        """The part that a further study on fresh seeds would have, if this one, of so many seeds, finds nothing."""
        return share_of(len(self.others) + 1 + (seeds >= FEWEST_SEEDS))

    def corrected(self, p: float, *, claim: str | None = None) -> float:
        """A p that is corrected for the changes of its study, corrected once more for the other studies.

        The floor was corrected for studies when it was found, and is not corrected again.
        """
        return min(1.0, max(p / self.share(claim=claim), self.floor))

    @property
    def floor(self) -> float:
        """The corrected p that the same runs had before: leaving other changes out cannot lower it."""
        return max((one.p for one in self.same_runs if one.p is not None), default=0.0)

    @property
    def margin(self) -> float | None:
        """The smallest margin these runs were judged with: a wider one was chosen after they were seen."""
        return min((one.margin for one in self.overlapping), default=None)

    def remarks(self, margin: float, *, claim: str | None = None) -> list[str]:
        """What the sentence has to say about it. ``claim``: better or worse, as the difference lies; None before it is seen."""
        told = []
        if self.others:
            number = len(self.others) + 1
            names = ", ".join(dict.fromkeys(f"{one.study} ({one.verdict})" for one in self.others))
            times, share = f"p counts {1.0 / share_of(number):.0f} times", self.share(claim=claim)
            if share == 1.0:
                times = f"it was {claim} before, so p stands as it is"
            elif claim is None and (found := self._found()):
                times += f", unless it is {found} again"
            if share == 1.0 and self.floor > 0.0:
                times = f"p is at least the {self.floor:.2g} that these runs had before"
            told.append(f"{_ordinal(number)} study of this change on this text, after {names}: {times}.")
        again = [one for one in self.overlapping if one in self.others]
        if again:
            names = ", ".join(dict.fromkeys(one.study for one in again))
            told.append(f"Runs with some of these seeds were seen before in {names}.")
        if self.margin is not None and self.margin < margin:
            told.append(f"Runs with these seeds had a margin of {self.margin:g}, which stands: this one was chosen after them.")
        return told

    def _found(self) -> str:
        """The differences that were claimed before."""
        every = {one.verdict for one in (*self.others, *self.same_runs)}
        return " or ".join(word for word in ("better", "worse") if word in every)

    def to_dict(self) -> dict[str, Any]:
        return {key: [asdict(one) for one in getattr(self, key)] for key in ("others", "same_runs", "overlapping")}

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Earlier:
        return cls(**{key: tuple(Attempt(**one) for one in rows) for key, rows in document.items()})


def _ordinal(number: int) -> str:
    words = {2: "Second", 3: "Third", 4: "Fourth", 5: "Fifth"}
    return words.get(number, f"Number {number} of the")


@final
@dataclass(frozen=True)
class Ledger:
    """The ledger of one folder of studies."""

    file: Path

    @classmethod
    def beside(cls, study: Path) -> Ledger:
        folder = study.resolve().parent
        return cls((folder.parent if (folder / SETS_FILE).is_file() else folder) / ".ledger.json")

    def attempts(self) -> list[Attempt]:
        if not self.file.is_file():
            return []
        document = read_json(self.file)
        try:
            if document["schema"] not in READABLE:
                readable = " and ".join(map(str, READABLE))
                raise RunError(f"{self.file} has schema {document['schema']!r}; this version reads {readable}.")
            return [Attempt(**one) for one in document["attempts"]]
        except (KeyError, TypeError) as error:
            raise RunError(
                f"{self.file} is damaged ({error}); it counts studies: restore it, or begin in another folder."
            ) from error

    def record(self, attempts: Sequence[Attempt]) -> None:
        """Writes these down; what the same plan said before about the same change is replaced."""
        with self._alone():
            kept = [one for one in self.attempts() if not any(one.same_plan(new) for new in attempts)]
            self._write([*kept, *attempts])

    def begin(self, attempts: Sequence[Attempt]) -> list[Attempt]:
        """Writes down what is begun, unless the same plan is there already; gives what stood there before, whole or begun.

        Both at once, so that of two studies that begin together one knows of the other.
        """
        with self._alone():
            before = self.attempts()
            new = [one for one in attempts if not any(one.same_plan(other) for other in before)]
            if new:
                self._write([*before, *new])
            return before

    def take_back(self, attempts: Sequence[Attempt]) -> None:
        """Removes what these studies began, where no end was recorded."""
        with self._alone():
            before = self.attempts()
            begun = [one for one in before if one.verdict == BEGUN]
            gone = [one for one in begun if any(one.study == own.study and one.same_plan(own) for own in attempts)]
            if gone:
                self._write([one for one in before if one not in gone])

    def _alone(self) -> AbstractContextManager[bool]:
        return locked(self.file.with_suffix(".lock"), wait=True)

    def _write(self, attempts: Sequence[Attempt]) -> None:
        write_json(self.file, {"schema": SCHEMA, "attempts": [asdict(one) for one in attempts]})
