"""RecordForwarder whoever waits: the silent one tells nobody, and has the shape of any other."""

from __future__ import annotations

import inspect
import sys
from types import SimpleNamespace

import pytest

from glassformer.foundation.progress import SILENT, Lines, Printing, Silent, Watcher, duration, usual_watcher


def test_the_silent_one_says_nothing(capfd) -> None:
    assert SILENT.say("a sentence") is None
    assert SILENT.progress("training", 1, 10, {"loss": 2.0}) is None
    assert capfd.readouterr() == ("", "")


def test_it_takes_what_every_watcher_takes() -> None:
    for name in ("say", "progress"):
        assert inspect.signature(getattr(Silent, name)) == inspect.signature(getattr(Watcher, name))


@pytest.mark.parametrize(
    ("seconds", "words"), [(0.4, "0 s"), (59.6, "1 min 0 s"), (200, "3 min 20 s"), (7500, "2 h 5 min"), (270000, "3 days 3 h")]
)
def test_durations(seconds: float, words: str) -> None:
    assert duration(seconds) == words


def test_a_pipe_gets_lines(monkeypatch, capsys) -> None:
    monkeypatch.delitem(sys.modules, "IPython", raising=False)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: False, raising=False)
    watch = usual_watcher()
    assert isinstance(watch, Lines)
    watch.say("step 5: fine")
    watch.progress("training", 1, 10, {"loss": 2.5})
    watch.progress("training", 10, 10, {"loss": 1.25})
    assert capsys.readouterr() == ("", "step 5: fine\ntraining: 10 of 10, loss 1.2500\n")


def test_a_notebook_sees_it(monkeypatch) -> None:
    shell = type("ZMQInteractiveShell", (), {})()
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
    assert isinstance(usual_watcher(), Printing)


def test_one_line_is_written_over(capsys) -> None:
    watch = Printing()
    watch.progress("training", 1, 10, {"loss": 2.5})
    watch.say("step 5: fine")
    watch.progress("training", 10, 10, {"loss": 1.25, "what": "text"})
    assert capsys.readouterr().err == (
        "\rtraining 1 of 10  loss 2.5\rstep 5: fine              \n\rtraining 10 of 10  loss 1.25\n"
    )
