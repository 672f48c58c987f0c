"""``CheckReport``: each law passed, broken, or "cannot tell" with a reason; as JSON, text, HTML. Imports no torch.

``LawResults`` collects the outcomes while the laws are tested.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from html import escape
from typing import Any, Literal

from glassformer.foundation.errors import CannotTell, CheckFailed
from glassformer.foundation.plugins import fault_in_plugin

Law = Literal["causality", "batch", "state", "padding", "cache", "labels", "path", "processes"]
LAWS: tuple[Law, ...] = ("causality", "batch", "state", "padding", "cache", "labels", "path", "processes")
Outcome = Literal["passed", "broken", "cannot tell"]

ABOUT: dict[Law, str] = {
    "causality": "no score depends on a later token",
    "batch": "no score depends on another row of the batch",
    "state": "no score depends on what an earlier call read",
    "padding": "no score depends on padding or on a hidden token",
    "labels": "no score depends on the target it is measured by",
    "path": "a compiled, captured or low-precision path gives the same as the plain one",
    "processes": "several processes together give the gradient that one of them gives alone",
    "cache": "reading in pieces with a cache gives the same as reading at once",
}
BROKEN: dict[Law, str] = {
    "causality": "a leak from the future: another token at position {source} changes {measured}",
    "batch": "a leak from other rows: another token at position {source} of another row changes {measured}",
    "state": "state between calls: what an earlier call read changes {measured}",
    "padding": "padding matters: another hidden token at position {source} changes {measured}",
    "labels": "the target is seen: with each target in turn at {source}, {measured} do not come from one distribution; they "
    "miss it",
    "cache": "the cache matters: continuing from position {source} with a cache, {measured} change",
}


@dataclass(frozen=True)
class Finding:
    """One broken law with a minimal example.

    ``where``: the first module with the dependence. ``from_position``: the token that should not matter; ``to_position``: the
    position whose logits it changes; ``size``: the largest change.
    """

    law: Law
    where: str
    from_position: int
    to_position: int
    size: float
    example: dict[str, Any]

    def to_dict(self) -> dict[str, Any]:
        return vars(self).copy()

    @property
    def sentence(self) -> str:
        measured = self.example.get("measured", "scores")
        how = f"by {self.size:.3g} ({self.example.get('mode', 'evaluation')} mode, {self.example.get('precision', 'float64')})"
        if self.law == "path":
            return f"path: {self.where} differs from the plain one: its {measured} {how}."
        what = BROKEN[self.law].format(source=self.from_position, measured=f"the {measured} at position {self.to_position}")
        return f"{self.law}: {what} {how}. It enters at {self.where}."


@dataclass(frozen=True)
class CheckReport:
    """The results of all laws on one model."""

    subject: str
    findings: tuple[Finding, ...] = ()
    tested: dict[Law, str] = field(default_factory=dict)
    """How each law was tested."""
    not_judged: dict[Law, str] = field(default_factory=dict)
    """Laws that do not apply to this model, with the reason."""
    notes: tuple[str, ...] = ()
    seconds: float = 0.0
    cannot_tell: dict[Law, str] = field(default_factory=dict)
    """Laws that apply and could not be judged, with the reason."""

    @property
    def passed(self) -> bool:
        """Whether every applicable law was judged and holds."""
        return not self.findings and not self.cannot_tell

    @property
    def judged(self) -> dict[Law, Outcome]:
        """The outcome of every applicable law."""
        outcomes: dict[Law, Outcome] = {}
        for law in LAWS:
            if law in self.broken:
                outcomes[law] = "broken"
            elif law in self.cannot_tell:
                outcomes[law] = "cannot tell"
            elif law in self.tested:
                outcomes[law] = "passed"
        return outcomes

    @property
    def broken(self) -> frozenset[Law]:
        return frozenset(finding.law for finding in self.findings)

    @property
    def only_differs(self) -> bool:
        """No leak: the only finding is a fast path that differs numerically from the eager one."""
        return self.broken == {"path"}

    def to_dict(self) -> dict[str, Any]:
        """The JSON form, as ``check --json`` prints it."""
        return {
            "passed": self.passed,
            "judged": dict(self.judged),
            "findings": [finding.to_dict() for finding in self.findings],
            "subject": self.subject,
            "tested": dict(self.tested),
            "not_judged": dict(self.not_judged),
            "cannot_tell": dict(self.cannot_tell),
            "notes": list(self.notes),
            "seconds": round(self.seconds, 3),
        }

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> CheckReport:
        """The inverse of ``to_dict``."""
        return cls(
            document["subject"],
            tuple(Finding(**finding) for finding in document["findings"]),
            dict(document["tested"]),
            dict(document["not_judged"]),
            tuple(document["notes"]),
            document["seconds"],
            dict(document["cannot_tell"]),
        )

    def require(self) -> None:
        """Raises ``CheckFailed`` when a law is broken, ``CannotTell`` when one could not be judged."""
        if self.findings:
            sentences = " ".join(finding.sentence for finding in self.findings)
            raise CheckFailed(sentences, only_differs=self.only_differs)
        if self.cannot_tell:
            raise CannotTell(self.doubts)

    def joined(self, other: CheckReport) -> CheckReport:
        """Combined with the report of another code path of the same model; a law holds if both reports say so."""
        return replace(
            self,
            findings=(*self.findings, *other.findings),
            tested=_both(self.tested, other.tested),
            not_judged={law: why for law, why in self.not_judged.items() if law not in other.judged},
            notes=(*self.notes, *(note for note in other.notes if note not in self.notes)),
            seconds=self.seconds + other.seconds,
            cannot_tell=_both(self.cannot_tell, {law: f"{other.subject}: {why}" for law, why in other.cannot_tell.items()}),
        )

    @property
    def doubts(self) -> str:
        """Laws that could not be judged, a sentence for each reason."""
        by_reason: dict[str, list[str]] = {}
        for law, reason in self.cannot_tell.items():
            by_reason.setdefault(reason, []).append(law)
        return " ".join(f"{' and '.join(laws)} could not be judged: {reason}." for reason, laws in by_reason.items())

    @property
    def verdict(self) -> str:
        return "passed" if self.passed else "FAILED" if self.findings else "cannot tell"

    def lines(self) -> list[str]:
        """The report for a terminal, a line per law and note."""
        lines = []
        for law in LAWS:
            found = [finding.sentence.removeprefix(f"{law}: ") for finding in self.findings if finding.law == law]
            if found:
                lines.append(f"FAILED      {law}: {found[0]}")
            elif law in self.cannot_tell:
                lines.append(f"cannot tell {law}: {self.cannot_tell[law]}")
            elif law in self.not_judged:
                lines.append(f"not asked   {law}: {self.not_judged[law]}")
            elif law in self.tested:
                lines.append(f"passed      {law}: {ABOUT[law]} ({self.tested[law]})")
        return [*lines, *self.notes]

    def __str__(self) -> str:
        return "\n".join([f"{self.subject}: {self.verdict} in {self.seconds:.1f} s", *self.lines()])

    def _repr_html_(self) -> str:
        items = "".join(f"<li>{escape(line)}</li>" for line in self.lines())
        return f"<p><b>{escape(self.subject)}</b>: {self.verdict.lower()}</p><ul>{items}</ul>"


def _both(first: Mapping[Law, str], second: Mapping[Law, str]) -> dict[Law, str]:
    """Sentences by law, concatenated where both have one."""
    return {**first, **{law: f"{first[law]}; {text}" if law in first else text for law, text in second.items()}}


class LawResults:
    """Collects the outcomes of laws for a report; an exception in one law does not affect the others."""

    def __init__(self) -> None:
        self.findings: list[Finding] = []
        self.tested: dict[Law, str] = {}
        self.cannot_tell: dict[Law, str] = {}
        self.not_judged: dict[Law, str] = {}
        self.notes: dict[str, None] = {}

    def judge(self, law: Law, test: Callable[[], Finding | None], way: Callable[[], str], unsure: str | None = None) -> None:
        """``test`` returns a finding or None; ``unsure``: why None would not prove the law."""
        try:
            found = test()
        except Exception as error:  # a third-party model may raise anything
            self.cannot_tell[law] = short_error(error)
            return
        if found is not None:
            self.findings.append(found)
        elif unsure is not None:
            self.cannot_tell[law] = unsure
            return
        self.tested[law] = way()

    def note(self, sentences: Iterable[str]) -> None:
        self.notes.update(dict.fromkeys(sentences))

    def add(self, other: LawResults, what: str) -> None:
        """Adds those of another part of the same model. ``what``: how it was tested, in words; the first part needs none."""
        self.findings.extend(other.findings)
        for law, way in other.tested.items():
            self.tested[law] = f"{self.tested[law]}; {what}: {way}" if law in self.tested else way
        self.cannot_tell.update({law: f"{what}: {why}" if what else why for law, why in other.cannot_tell.items()})
        self.not_judged.update(other.not_judged)
        self.note(other.notes)

    def report(self, subject: str, seconds: float) -> CheckReport:
        findings, notes = tuple(self.findings), tuple(self.notes)
        return CheckReport(subject, findings, self.tested, self.not_judged, notes, seconds, cannot_tell=self.cannot_tell)


def short_error(error: BaseException) -> str:
    """The type of an error and the first line of its message; of a user's plugin with its file and line."""
    if (place := fault_in_plugin(error)) is not None:
        return place.splitlines()[0]
    first = next((line.strip() for line in str(error).splitlines() if line.strip()), "")
    return f"{type(error).__name__}: {first[:200]}" if first else type(error).__name__
