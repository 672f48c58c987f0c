"""Collects the outcome of each law into a ``CheckReport``: findings, laws that hold, laws that cannot be judged."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from glassformer.checks.check_report import CheckReport, Finding, Law


class Verdicts:
    """Collects outcomes; an exception in one law does not affect the others."""

    def __init__(self) -> None:
        self.findings: list[Finding] = []
        self.tested: dict[Law, str] = {}
        self.untold: dict[Law, str] = {}
        self.not_asked: dict[Law, str] = {}
        self.notes: dict[str, None] = {}

    def judge(self, law: Law, test: Callable[[], Finding | None], way: Callable[[], str], unsure: str | None = None) -> None:
        """``test`` returns a finding or None; ``unsure``: why None would not prove the law."""
        try:
            found = test()
        except Exception as error:  # a third-party model may raise anything
            self.cannot_tell(law, short_error(error))
            return
        if found is not None:
            self.findings.append(found)
        elif unsure is not None:
            self.cannot_tell(law, unsure)
            return
        self.tested[law] = way()

    def cannot_tell(self, law: Law, reason: str) -> None:
        self.untold[law] = reason

    def does_not_apply(self, law: Law, reason: str) -> None:
        self.not_asked[law] = reason

    def note(self, sentences: Iterable[str]) -> None:
        self.notes.update(dict.fromkeys(sentences))

    def add(self, other: Verdicts) -> None:
        """Adds the results with the head to those without it."""
        self.findings.extend(other.findings)
        for law, way in other.tested.items():
            self.tested[law] = f"{self.tested[law]}; through the head: {way}" if law in self.tested else way
        self.untold.update(other.untold)
        self.not_asked.update(other.not_asked)
        self.note(other.notes)

    def report(self, subject: str, seconds: float) -> CheckReport:
        return CheckReport(
            subject, tuple(self.findings), self.tested, self.not_asked, tuple(self.notes), seconds, cannot_tell=self.untold
        )


def short_error(error: BaseException) -> str:
    """The type of an error and the first line of its message."""
    said = next((line.strip() for line in str(error).splitlines() if line.strip()), "")
    return f"{type(error).__name__}: {said[:200]}" if said else type(error).__name__
