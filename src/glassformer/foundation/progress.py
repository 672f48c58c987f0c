"""How long-running work reports sentences and progress, without knowing of terminals or pages."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any, Protocol


class Watcher(Protocol):
    """The command line draws bars, the page sends events; most code uses ``SILENT``."""

    def say(self, sentence: str) -> None:
        """One sentence the user should see."""

    def progress(self, what: str, done: float, total: float, facts: dict[str, Any] | None = None) -> None:
        """How far ``what`` has come; ``facts`` are shown beside the bar (loss, tokens per second)."""


class Silent:
    """Shows nothing."""

    def say(self, sentence: str) -> None:
        return None

    def progress(self, what: str, done: float, total: float, facts: dict[str, Any] | None = None) -> None:
        return None


SILENT: Watcher = Silent()


class Printing:
    """One line that is written over, and sentences above it: for Python on a terminal and for notebooks."""

    def __init__(self) -> None:
        self._last, self._width = 0.0, 0

    def say(self, sentence: str) -> None:
        sys.stderr.write(f"\r{sentence:{self._width}}\n")
        self._width = 0

    def progress(self, what: str, done: float, total: float, facts: dict[str, Any] | None = None) -> None:
        now = time.monotonic()
        if now - self._last < 0.2 and done < total:
            return
        self._last = now
        shown = "".join(f"  {name} {value:,.4g}" for name, value in (facts or {}).items() if isinstance(value, float))
        line = f"{what} {done:,.0f} of {total:,.0f}{shown}"
        sys.stderr.write(f"\r{line:{self._width}}" + ("\n" if done >= total else ""))
        sys.stderr.flush()
        self._width = 0 if done >= total else len(line)


class Lines:
    """For logs and pipes: sentences, and a line of progress now and then. ``say`` writes one line; default standard error."""

    def __init__(self, say: Callable[[str], None] | None = None) -> None:
        self._say = say or (lambda sentence: print(sentence, file=sys.stderr, flush=True))
        self._last = time.monotonic()
        self._begun: dict[str, tuple[float, float]] = {}

    def say(self, sentence: str) -> None:
        self._say(sentence)

    def progress(self, what: str, done: float, total: float, facts: dict[str, Any] | None = None) -> None:
        now = time.monotonic()
        since, first = self._begun.setdefault(what, (now, done))
        if now - self._last >= 30 or (facts and done >= total):
            self._last = now
            shown = "".join(f", {name} {short(value)}" for name, value in (facts or {}).items())
            left = f", {duration((now - since) / (done - first) * (total - done))} left" if first < done < total else ""
            self._say(f"{what}: {done:,.0f} of {total:,.0f}{shown}{left}")


def usual_watcher() -> Watcher:
    """For calls from Python: one line that is written over in a notebook and on a terminal, lines in a pipe or a log."""
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    in_notebook = type(shell).__name__ == "ZMQInteractiveShell"
    return Printing() if in_notebook or sys.stderr.isatty() else Lines()


def short(value: Any) -> str:
    """A fact beside a bar: ``2.5103``, ``12,579``."""
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4f}"
    return str(value)


def duration(seconds: float) -> str:
    """``45 s``, ``3 min 20 s``, ``2 h 5 min``, ``3 days 4 h``."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    if whole < 2 * 86400:
        return f"{whole // 3600} h {whole % 3600 // 60} min"
    return f"{whole // 86400} days {whole % 86400 // 3600} h"
