"""Laws judged one by one -> the report: what was found, what holds, what cannot be told and why."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from glassformer.checks.report import CheckReport, Finding, Law


class Verdicts:
    """Collects outcomes; an exception in one law loses nothing of another."""

    def __init__(self) -> None:
        self.findings: list[Finding] = []
        self.tested: dict[Law, str] = {}
        self.untold: dict[Law, str] = {}
        self.not_asked: dict[Law, str] = {}
        self.notes: dict[str, None] = {}

    def judge(self, law: Law, test: Callable[[], Finding | None], way: Callable[[], str], unsure: str | None = None) -> None:
        """``test`` finds a break, or nothing; ``unsure``: why nothing found would not mean that the law holds."""
        try:
            found = test()
        except Exception as error:  # a stranger's model may raise anything
            self.cannot_tell(law, in_short(error))
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
        """What was found through the head, after what was found before it."""
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


def in_short(error: BaseException) -> str:
    """The kind of an error and the first line of what it says."""
    said = next((line.strip() for line in str(error).splitlines() if line.strip()), "")
    return f"{type(error).__name__}: {said[:200]}" if said else type(error).__name__
