"""What the command line prints: results on standard output, everything else on standard error, bars only on a terminal."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn
from rich.table import Table

from glassformer.foundation.progress import SILENT, Lines, Watcher, short


@dataclass
class CommonFlags:
    """Flags that every command knows; set once, before the command runs."""

    quiet: bool = False
    debug: bool = False
    words: tuple[str, ...] = ()
    """The whole command, as it was typed."""


SETTINGS = CommonFlags()


_CONTROL = {
    number: f"\\u{number:04x}"
    for number in (*range(0x20), *range(0x7F, 0xA0), *range(0x202A, 0x202F), *range(0x2066, 0x206A))
    if chr(number) not in "\t\n\r"
}


def visible(text: str) -> str:
    """Control characters, and marks that turn the direction of a line, by their numbers: a name may not command a terminal."""
    return text.translate(_CONTROL)


class _Console(Console):
    """Prints text as it is: what a name spells is no markup, no picture and no command."""

    def print(self, *objects: Any, **options: Any) -> None:
        super().print(*(visible(one) if isinstance(one, str) else one for one in objects), **options)


def out() -> Console:
    """Standard output, without wrapping when it is not a terminal (so that a pipe sees whole lines)."""
    return _Console(highlight=False, emoji=False, markup=False, soft_wrap=not sys.stdout.isatty())


def err() -> Console:
    return _Console(stderr=True, highlight=False, emoji=False, markup=False, soft_wrap=True)


def print_json(document: Any) -> None:
    """One document on standard output."""
    unicode = (sys.stdout.encoding or "utf-8").lower().replace("-", "").startswith("utf")
    sys.stdout.write(json.dumps(document, indent=2, ensure_ascii=not unicode, allow_nan=False) + "\n")


def print_result(document: Any, text: object, *, json: bool) -> None:
    """The result of a command: one JSON document, or text for people."""
    print_json(document) if json else out().print(str(text))


def say(sentence: str) -> None:
    """A remark for the user; never part of the result."""
    if not SETTINGS.quiet:
        err().print(sentence)


def print_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]], *, numbers: bool = True) -> None:
    """A table for people; ``numbers``: every column but the first is one of figures."""
    table = Table(
        title=visible(title), title_justify="left", header_style="bold", box=None, pad_edge=False, padding=(0, 2, 0, 0)
    )
    for position, name in enumerate(columns):
        table.add_column(name, justify="right" if numbers and position else "left", overflow="fold")
    for row in rows:
        table.add_row(*(visible(" ".join(cell.splitlines())) for cell in row))
    console = out()
    if console.soft_wrap:
        console.width = 200  # no terminal: wide enough that no figure is folded
    console.print(table)


class _Bars:
    """A watcher that draws one bar per kind of work."""

    def __init__(self, bars: Progress) -> None:
        self._bars = bars
        self._tasks: dict[str, TaskID] = {}

    def say(self, sentence: str) -> None:
        self._bars.console.print(sentence)

    def progress(self, what: str, done: float, total: float, facts: dict[str, Any] | None = None) -> None:
        shown = "  ".join(f"{name} {short(value)}" for name, value in (facts or {}).items())
        if what not in self._tasks:
            self._tasks[what] = self._bars.add_task(what, total=total, facts="")
        self._bars.update(self._tasks[what], completed=done, total=total, facts=shown)


def remarks() -> Watcher:
    """Sentences alone, nothing with --quiet: for commands whose result is itself a stream."""
    return SILENT if SETTINGS.quiet else Lines(say)


@contextmanager
def watching() -> Iterator[Watcher]:
    """Bars on a terminal, lines elsewhere, nothing with --quiet."""
    if SETTINGS.quiet:
        yield SILENT
    elif not sys.stderr.isatty():
        yield Lines(say)
    else:
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[facts]}"),
            TimeRemainingColumn(),
        )
        with Progress(*columns, console=err(), transient=False) as bars:
            yield _Bars(bars)
