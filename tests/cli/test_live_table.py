"""The live table: drawn on a terminal, lines elsewhere, nothing when quiet."""

from __future__ import annotations

import io

import pytest
from rich.console import Console
from rich.live import Live

from glassformer.cli import live_table as module
from glassformer.cli.console import SETTINGS
from glassformer.cli.live_table import Lines, LiveTable, progress_line, progress_table, watching_a_study
from glassformer.foundation.progress import SILENT
from glassformer.study.planning.variant_facts import Facts
from glassformer.study.running.progress import StudyProgress, StudyWatcher, VariantProgress

FACTS = Facts("r", "d", "x", parameters=4321, step_flops=1000, steps=12)
ROWS = (
    VariantProgress("base", 3, 0, 8, (0.25, 0.5), 1.23456, FACTS),
    VariantProgress("alibi [bold]", 2, 1, 8),
)
PROGRESS = StudyProgress(ROWS, 5, 16, passed=60.0, left=200.0, busy=0.5)


def text_of(thing: object) -> str:
    console = Console(file=io.StringIO(), width=120, force_terminal=False)
    console.print(thing)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_every_variant_has_a_row_with_progress_and_cost() -> None:
    text = text_of(progress_table(PROGRESS))
    header, base, alibi, whole = text.splitlines()
    assert header.split() == ["variant", "seeds", "running", "mean", "so", "far", "parameters", "FLOPs", "a", "run"]
    assert base.split() == ["base", "3", "of", "8", "25", "%", "50", "%", "1.2346", "4,321", "1.2e+04"]
    assert alibi.split()[:2] == ["alibi", "[bold]"]
    assert "2 of 8 (1 failed)" in alibi
    assert whole == "5 of 16 trials, 3 min 20 s left, 30 min 0 s of computing so far."


def test_before_anything_is_known_no_time_is_promised() -> None:
    assert progress_line(StudyProgress((), 0, 16, 0.0, None, 0.0)) == "0 of 16 trials, 0 s of computing so far."


def test_lines_come_when_a_trial_ends_or_after_a_while(capsys, monkeypatch) -> None:
    now = [100.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
    lines = Lines()
    for done, at in ((5, 100.0), (5, 101.0), (6, 102.0), (6, 140.0)):
        now[0] = at
        lines.study_progress(StudyProgress(ROWS, done, 16, 0.0, None, 0.0))
    lines.say("A [sentence].")
    lines.progress("reading", 1, 2)
    assert [line[:12] for line in capsys.readouterr().err.splitlines()] == [
        "5 of 16 tria",
        "6 of 16 tria",
        "6 of 16 tria",
        "A [sentence]",
    ]


def test_on_a_terminal_it_is_drawn_in_place() -> None:
    console = Console(file=io.StringIO(), width=120, force_terminal=True)
    with Live(console=console, auto_refresh=False) as live:
        table = LiveTable(live)
        assert isinstance(table, StudyWatcher)
        table.say("A [sentence].")
        table.progress("reading", 1, 4)
        assert "25 %" in text_of(live.renderable)
        table.study_progress(PROGRESS)
        assert "3 of 8" in text_of(live.renderable)
    assert isinstance(console.file, io.StringIO)
    assert "A [sentence]." in console.file.getvalue()


@pytest.mark.parametrize(
    ("quiet", "terminal", "kind"), [(True, True, type(SILENT)), (False, False, Lines), (False, True, LiveTable)]
)
def test_who_watches(monkeypatch, quiet, terminal, kind) -> None:
    monkeypatch.setattr(SETTINGS, "quiet", quiet)
    monkeypatch.setattr(module.sys.stderr, "isatty", lambda: terminal, raising=False)
    monkeypatch.setattr(module, "err", lambda: Console(file=io.StringIO()))
    with watching_a_study() as watch:
        assert type(watch) is kind
