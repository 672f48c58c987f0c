"""Telling whoever waits: the silent one tells nobody, and has the shape of any other."""

from __future__ import annotations

import inspect

from glassformer.foundation.progress import SILENT, Silent, Watcher


def test_the_silent_one_says_nothing(capfd) -> None:
    assert SILENT.say("a sentence") is None
    assert SILENT.progress("training", 1, 10, {"loss": 2.0}) is None
    assert capfd.readouterr() == ("", "")


def test_it_takes_what_every_watcher_takes() -> None:
    for name in ("say", "progress"):
        assert inspect.signature(getattr(Silent, name)) == inspect.signature(getattr(Watcher, name))
