"""The live table of a study: drawn in place on a terminal, a line now and then elsewhere, nothing with --quiet."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, final

from rich.console import Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from glassformer.cli.console import SETTINGS, err, say, visible
from glassformer.foundation.progress import SILENT, Watcher, duration

if TYPE_CHECKING:
    from glassformer.study.running.progress import (  # imported late: every command imports this module
        StudyProgress,
        VariantProgress,
    )

LOG_SECONDS = 30.0  # between two lines of a log, unless a trial has ended


@contextmanager
def watching_a_study() -> Iterator[Watcher]:
    """A watcher that shows the progress of a study."""
    if SETTINGS.quiet:
        yield SILENT
    elif not sys.stderr.isatty():
        yield Lines()
    else:
        with Live(console=err(), refresh_per_second=4, transient=False) as live:
            yield LiveTable(live)


@final
class LiveTable:
    """Draws the progress in place; sentences scroll above it."""

    def __init__(self, live: Live) -> None:
        self._live = live

    def say(self, sentence: str) -> None:
        self._live.console.print(sentence, markup=False, highlight=False)

    def progress(self, what: str, done: float, total: float, facts: dict[str, Any] | None = None) -> None:
        self._live.update(Text(f"{what}: {100 * done / max(1.0, total):.0f} %"))

    def study_progress(self, progress: StudyProgress) -> None:
        self._live.update(progress_table(progress))


@final
class Lines:
    """For logs and pipes: sentences at once, progress when a trial ends, or after ``LOG_SECONDS``."""

    def __init__(self) -> None:
        self._last, self._done = 0.0, -1

    def say(self, sentence: str) -> None:
        say(sentence)

    def progress(self, what: str, done: float, total: float, facts: dict[str, Any] | None = None) -> None:
        return None

    def study_progress(self, progress: StudyProgress) -> None:
        now = time.monotonic()
        if progress.done == self._done and now - self._last < LOG_SECONDS:
            return
        self._last, self._done = now, progress.done
        say(progress_line(progress))


def progress_line(progress: StudyProgress) -> str:
    """``7 of 24 trials, 3 min 20 s left, 1 min 12 s of computing so far.``"""
    left = "" if progress.left is None else f", {duration(progress.left)} left"
    return f"{progress.done} of {progress.total} trials{left}, {duration(3600 * progress.busy)} of computing so far."


def progress_table(progress: StudyProgress) -> Group:
    """The table: a row per variant, and a line about the whole."""
    table = Table(header_style="bold", box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for position, name in enumerate(("variant", "seeds", "running", "mean so far", "parameters", "FLOPs a run")):
        table.add_column(name, justify="right" if position else "left", overflow="fold")
    for row in progress.rows:
        table.add_row(*(Text(visible(cell)) for cell in _cells(row)))  # text, not markup: a variant may be called [bold]
    return Group(table, Text(progress_line(progress)))


def _cells(row: VariantProgress) -> list[str]:
    failed = f" ({row.failed} failed)" if row.failed else ""
    return [
        row.name,
        f"{row.done} of {row.planned}{failed}",
        " ".join(f"{100 * share:.0f} %" for share in row.running),
        "" if row.mean is None else f"{row.mean:.4f}",
        "" if row.facts is None else f"{row.facts.parameters:,}",
        "" if row.facts is None else f"{row.facts.flops:.3g}",
    ]
