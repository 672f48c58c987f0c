"""The ledger: how often each change was tried on a text, to correct p values for repeated studies.

One file beside the studies, ``.ledger.json``: an entry per study and change, identified by fingerprints of baseline, change
and text, not by names. A study is entered before its first trial and stores a copy of the earlier entries, so moving it does
not change its verdicts. A study that was deleted or never finished stays in the ledger. Imports no torch.
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
from glassformer.study.planning.power import FEWEST_SEEDS

SCHEMA = 2
BEGUN = "begun"
"""Instead of a verdict, for a study that has not finished."""
SETS_FILE = "sets.json"
"""Marks a folder with studies on several data sets: its ledger is beside that folder, not inside it."""
LATER_STUDIES = 0.2
"""The fraction of alpha that all further studies of a change share; the first has all of it."""


def alpha_share(number: int) -> float:
    """The fraction of alpha that the k-th study of a change may spend.

    The first cannot know of later ones, so it spends all of it. 1, 1/2, 1/3 and so on would diverge (five studies: 11 %
    instead of 5). From the second on the fractions sum to ``LATER_STUDIES``, however many there are: 1 / (k (k - 1)) sums
    to 1.
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
    """A fingerprint of the decision rule: metric, split, looks, alpha."""
    margin: float
    first_seed: int
    seeds: int
    verdict: str
    p: float | None
    made: str
    """A fingerprint of training text, parents, plugins and tuning, on which runs of the same recipe depend, too."""
    question: str
    """A fingerprint of baseline, change and text without the keys for saving and monitoring."""

    @property
    def could_decide(self) -> bool:
        return self.seeds >= FEWEST_SEEDS

    def same_question(self, other: Attempt) -> bool:
        by_recipe = (self.base, self.change, self.text) == (other.base, other.change, other.text)
        return by_recipe or self.question == other.question

    def same_plan(self, other: Attempt) -> bool:
        """The same study of the same change, whichever folder it was run in."""
        return (self.plan, self.change, self.made) == (other.plan, other.change, other.made)

    def overlaps(self, other: Attempt) -> bool:
        """Whether both used one seed, and so the same run, or one that differs only by later edits."""
        return self.first_seed < other.first_seed + other.seeds and other.first_seed < self.first_seed + self.seeds

    def same_runs(self, other: Attempt) -> bool:
        """The same runs judged by the same rule: not a new attempt, but the earlier correction stays (see ``floor``)."""
        own = (self.rules, self.first_seed, self.seeds, self.made)
        return own == (other.rules, other.first_seed, other.seeds, other.made)


@dataclass(frozen=True)
class Earlier:
    """Earlier studies of one change: other attempts, judgements of the same runs, and attempts that share a seed."""

    others: tuple[Attempt, ...] = ()
    same_runs: tuple[Attempt, ...] = ()
    overlapping: tuple[Attempt, ...] = ()

    @classmethod
    def of(cls, own: Attempt, attempts: Sequence[Attempt]) -> Earlier:
        """Sorts the earlier attempts at the same question; the same plan in another folder is the same study.

        A pilot with too few seeds for a verdict does not count, unless this study judges its runs.
        """
        related = [one for one in attempts if one.same_question(own) and not one.same_plan(own)]
        return cls(
            others=tuple(one for one in related if not one.same_runs(own) and (one.could_decide or one.overlaps(own))),
            same_runs=tuple(one for one in related if one.same_runs(own)),
            overlapping=tuple(one for one in related if one.overlaps(own)),
        )

    def share(self, *, claim: str | None = None) -> float:
        """The fraction of alpha that this study has for a ``claim`` about the change: better, worse or same.

        1 if an earlier study made the same claim: repeating it adds no false positive. The opposite is a new claim. None: a
        claim that the ledger does not record.
        """
        claimed = any(one.verdict == claim for one in (*self.others, *self.same_runs))
        return 1.0 if claimed else alpha_share(len(self.others) + 1)

    def next_share(self, seeds: int) -> float:
        """The fraction of alpha left for a further study on fresh seeds, if this one, of ``seeds`` seeds, finds nothing."""
        return alpha_share(len(self.others) + 1 + (seeds >= FEWEST_SEEDS))

    def corrected(self, p: float, *, claim: str | None = None) -> float:
        """``p``, already corrected for the changes of its study, corrected for other studies, too.

        The floor already includes that correction.
        """
        return min(1.0, max(p / self.share(claim=claim), self.floor))

    @property
    def floor(self) -> float:
        """The corrected p that the same runs had before: dropping other changes from the plan cannot lower it."""
        return max((one.p for one in self.same_runs if one.p is not None), default=0.0)

    @property
    def margin(self) -> float | None:
        """The smallest margin these runs were judged with: a wider one would be chosen post hoc."""
        return min((one.margin for one in self.overlapping), default=None)

    def remarks(self, margin: float, *, claim: str | None = None) -> list[str]:
        """Caveats for the verdict's sentence. ``claim``: better or worse, by the sign of the difference; None before it is
        known."""
        sentences = []
        if self.others:
            number, share = len(self.others) + 1, self.share(claim=claim)
            names = ", ".join(dict.fromkeys(f"{one.study} ({one.verdict})" for one in self.others))
            every = {one.verdict for one in (*self.others, *self.same_runs)}
            found = " or ".join(word for word in ("better", "worse") if word in every)
            effect = f"p is multiplied by {1.0 / alpha_share(number):.0f}"
            if share == 1.0 and self.floor > 0.0:
                effect = f"p is at least {self.floor:.2g}, as when these runs were judged before"
            elif share == 1.0:
                effect = f"p is not corrected for them, because it was {claim} before"
            elif claim is None and found:
                effect += f", unless the verdict is {found} again"
            sentences.append(f"This is study {number} of this change on this text, after {names}: {effect}.")
        again = [one for one in self.overlapping if one in self.others]
        if again:
            names = ", ".join(dict.fromkeys(one.study for one in again))
            sentences.append(f"Some of these seeds were already used in {names}.")
        if self.margin is not None and self.margin < margin:
            sentences.append(
                f"Runs with these seeds were judged before with a margin of {self.margin:g}, which still applies: a wider "
                "margin may not be chosen afterwards."
            )
        return sentences

    def to_dict(self) -> dict[str, Any]:
        return {key: [asdict(one) for one in getattr(self, key)] for key in ("others", "same_runs", "overlapping")}

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Earlier:
        return cls(**{key: tuple(Attempt(**one) for one in rows) for key, rows in document.items()})


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
            if document["schema"] != SCHEMA:
                raise RunError(
                    f"{self.file} has schema {document['schema']!r}; this version reads {SCHEMA}.", reason="other-schema"
                )
            return [Attempt(**one) for one in document["attempts"]]
        except (KeyError, TypeError) as error:
            raise RunError(
                f"{self.file} is damaged ({error}). It counts how often a change was studied: restore it, or begin in another "
                "folder.",
                reason="damaged-ledger",
            ) from error

    def record(self, attempts: Sequence[Attempt]) -> None:
        """Adds these entries, replacing those of the same plan and change."""
        with self._locked():
            others = [one for one in self.attempts() if not any(one.same_plan(new) for new in attempts)]
            self._write([*others, *attempts])

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
            begun = [one for one in before if one.verdict == BEGUN]
            gone = [one for one in begun if any(one.study == own.study and one.same_plan(own) for own in attempts)]
            if gone:
                self._write([one for one in before if one not in gone])

    def _locked(self) -> AbstractContextManager[bool]:
        return locked(self.file.with_suffix(".lock"), wait=True)

    def _write(self, attempts: Sequence[Attempt]) -> None:
        write_json(self.file, {"schema": SCHEMA, "attempts": [asdict(one) for one in attempts]})
