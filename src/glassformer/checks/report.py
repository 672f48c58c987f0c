"""What a check found: findings by law, what was tested, what could not be judged; as JSON, as text, as HTML. No torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from html import escape
from typing import Any, Literal

from glassformer.foundation.errors import CheckFailed

Law = Literal["causality", "batch", "padding", "cache"]
LAWS: tuple[Law, ...] = ("causality", "batch", "padding", "cache")

ABOUT: dict[Law, str] = {
    "causality": "no score depends on a later token",
    "batch": "no score depends on another row of the batch",
    "padding": "no score depends on padding or on a hidden token",
    "cache": "reading in pieces with a cache gives what reading at once gives",
}


@dataclass(frozen=True)
class Finding:
    """One broken law with its smallest example.

    ``where``: the module at which the dependence enters first. ``from_position``: the token that should not matter;
    ``to_position``: the place whose scores it changes; ``size``: by how much the largest of them changes.
    """

    law: Law
    where: str
    from_position: int
    to_position: int
    size: float
    example: dict[str, Any]

    def plain(self) -> dict[str, Any]:
        return {
            "law": self.law,
            "where": self.where,
            "from_position": self.from_position,
            "to_position": self.to_position,
            "size": self.size,
            "example": self.example,
        }

    @property
    def sentence(self) -> str:
        how = f"by {self.size:.3g} ({self.example.get('mode', 'evaluation')} mode, {self.example.get('precision', 'float64')})"
        measured = self.example.get("measured", "scores")
        match self.law:
            case "causality":
                what = f"a leak from the future: the token at {self.from_position} changes the {measured} at {self.to_position}"
            case "batch":
                what = (
                    f"a leak from other rows: the token at {self.from_position} of another row changes the {measured} at "
                    f"{self.to_position}"
                )
            case "padding":
                what = (
                    f"padding matters: what stands hidden at {self.from_position} changes the {measured} at {self.to_position}"
                )
            case "cache":
                what = (
                    f"the cache matters: read on from position {self.from_position} with a cache, the {measured} at "
                    f"{self.to_position} change"
                )
        return f"{self.law}: {what} {how}. It enters at {self.where}."


@dataclass(frozen=True)
class CheckReport:
    """The verdict on one model."""

    subject: str
    findings: tuple[Finding, ...] = ()
    tested: dict[Law, str] = field(default_factory=dict)
    """How each law was tested."""
    not_judged: dict[Law, str] = field(default_factory=dict)
    """Laws that could not be tested, with the reason."""
    notes: tuple[str, ...] = ()
    seconds: float = 0.0

    @property
    def passed(self) -> bool:
        return not self.findings

    @property
    def broken(self) -> frozenset[Law]:
        return frozenset(finding.law for finding in self.findings)

    def plain(self) -> dict[str, Any]:
        """The JSON form of the contract, and a little more."""
        return {
            "passed": self.passed,
            "findings": [finding.plain() for finding in self.findings],
            "subject": self.subject,
            "tested": dict(self.tested),
            "not_judged": dict(self.not_judged),
            "notes": list(self.notes),
            "seconds": round(self.seconds, 3),
        }

    @classmethod
    def from_plain(cls, document: Mapping[str, Any]) -> CheckReport:
        """The report that ``plain`` described."""
        return cls(
            document["subject"],
            tuple(Finding(**finding) for finding in document["findings"]),
            dict(document["tested"]),
            dict(document["not_judged"]),
            tuple(document["notes"]),
            document["seconds"],
        )

    def require(self) -> None:
        """Raises ``CheckFailed`` unless every law holds."""
        if not self.passed:
            raise CheckFailed(" ".join(finding.sentence for finding in self.findings))

    def lines(self) -> list[str]:
        """The report for a terminal, a line per law and note."""
        lines = []
        for law in LAWS:
            found = [finding.sentence.removeprefix(f"{law}: ") for finding in self.findings if finding.law == law]
            if found:
                lines.append(f"FAILED      {law}: {found[0]}")
            elif law in self.not_judged:
                lines.append(f"not judged  {law}: {self.not_judged[law]}")
            elif law in self.tested:
                lines.append(f"passed      {law}: {ABOUT[law]} ({self.tested[law]})")
        return [*lines, *self.notes]

    def __str__(self) -> str:
        verdict = "passed" if self.passed else "FAILED"
        return "\n".join([f"{self.subject}: {verdict} in {self.seconds:.1f} s", *self.lines()])

    def _repr_html_(self) -> str:
        verdict = "passed" if self.passed else "failed"
        items = "".join(f"<li>{escape(line)}</li>" for line in self.lines())
        return f"<p><b>{escape(self.subject)}</b>: {verdict}</p><ul>{items}</ul>"
