"""How long work tells whoever waits for it: sentences and progress, with no idea of terminals or pages."""

from __future__ import annotations

from typing import Any, Protocol


class Watcher(Protocol):
    """The command line draws bars, the page sends events, tests listen; most code holds ``SILENT``."""

    def say(self, sentence: str) -> None:
        """One sentence the user should see."""

    def progress(self, what: str, done: float, total: float, facts: dict[str, Any] | None = None) -> None:
        """How far ``what`` has come; ``facts`` are shown beside the bar (loss, tokens per second)."""


class Silent:
    """Tells nobody."""

    def say(self, sentence: str) -> None:
        return None

    def progress(self, what: str, done: float, total: float, facts: dict[str, Any] | None = None) -> None:
        return None


SILENT: Watcher = Silent()
