"""What is printed: results on one stream, remarks on the other, nothing with --quiet, no bars in a pipe."""

from __future__ import annotations

import json

import pytest

from glassformer.cli import console
from glassformer.cli.console import SETTINGS, err, out, print_json, print_table, remarks, say, watching
from glassformer.foundation import progress


@pytest.fixture(autouse=True)
def _settings(monkeypatch):
    monkeypatch.setattr(SETTINGS, "quiet", False)


def test_one_document_of_strict_json(capsys) -> None:
    print_json({"a": [1, None], "ä": "x"})
    out, err = capsys.readouterr()
    assert json.loads(out) == {"a": [1, None], "ä": "x"}
    assert err == ""
    with pytest.raises(ValueError, match="not JSON compliant"):
        print_json({"a": float("nan")})


def test_remarks_go_to_the_other_stream_and_quiet_silences_them(capsys) -> None:
    say("a [remark] with brackets")
    assert capsys.readouterr() == ("", "a [remark] with brackets\n")
    SETTINGS.quiet = True
    say("nothing")
    remarks().say("nothing")
    with watching() as watch:
        watch.say("nothing")
        watch.progress("training", 1, 2)
    assert capsys.readouterr() == ("", "")


def test_what_a_name_spells_is_no_picture(capsys) -> None:
    """rich would draw a cross for ``:x:``, as in file.py:x, and take the brackets of a title away."""
    out().print("good.py:x:y")
    err().print("good.py:x:y")
    print_table("runs of [a:x:b]", ["name"], [["c:x:d"]])
    printed = capsys.readouterr()
    assert printed.err == "good.py:x:y\n"
    assert [line.strip() for line in printed.out.splitlines()] == ["good.py:x:y", "runs of [a:x:b]", "name", "c:x:d"]


def test_a_pipe_sees_sentences_and_a_line_at_the_end_no_bars(capsys) -> None:
    with watching() as watch:
        watch.say("a sentence")
        for done in range(1, 4):
            watch.progress("training", done, 3, {"loss": 2.34567, "tokens/s": 12345.6})
        watch.progress("reading", 3, 3)
    out, err = capsys.readouterr()
    assert out == ""
    assert err == "a sentence\ntraining: 3 of 3, loss 2.3457, tokens/s 12,346\n"


def test_a_line_now_and_then(capsys, monkeypatch) -> None:
    clock = iter(range(0, 1000, 16))
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(clock))
    with watching() as watch:
        for done in range(1, 6):
            watch.progress("training", done, 100, {"loss": 2.0})
    assert [line.split(",")[0] for line in capsys.readouterr().err.splitlines()] == ["training: 2 of 100", "training: 4 of 100"]


def test_a_terminal_sees_bars(monkeypatch) -> None:
    import io

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    with watching() as watch:
        watch.say("a sentence")
        watch.progress("training", 2, 4, {"loss": 1.5})
        watch.progress("training", 4, 4, {"loss": 1.25})
    shown = terminal.getvalue()
    assert "a sentence" in shown
    assert "training" in shown
    assert "4/4" in shown
    assert "loss 1.2500" in shown


def test_tables_are_not_folded_in_a_pipe(capsys) -> None:
    print_table("Runs", ["run", "loss"], [["a" * 90, "1.25"], ["b", "12.5"]])
    title, head, first, second = capsys.readouterr().out.splitlines()
    assert title.strip() == "Runs"
    assert head.split() == ["run", "loss"]
    assert first.split() == ["a" * 90, "1.25"]
    assert second.split() == ["b", "12.5"]
    assert len(first.rstrip()) == len(second.rstrip())  # figures end in one column


def test_no_colour_when_asked(monkeypatch, capsys) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("NO_COLOR", "1")
    console.err().print("x", style="red")
    assert "\x1b[31m" not in capsys.readouterr().err


def test_a_log_says_how_long_it_will_take(capsys, monkeypatch) -> None:
    clock = iter([0.0, 0.0, 40.0, 80.0])
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(clock))
    lines = progress.Lines(say)
    for done in (0, 10, 20):
        lines.progress("training", done, 100, {"loss": 2.0})
    assert capsys.readouterr().err.splitlines() == [
        "training: 10 of 100, loss 2.0000, 6 min 0 s left",
        "training: 20 of 100, loss 2.0000, 5 min 20 s left",
    ]


def test_a_name_commands_no_terminal(capsys) -> None:
    name = "a\x1b]0;owned\x07\x1b[2Jb\u202ec\x9b"
    console.say(f"Run {name}")
    console.out().print(name)
    console.print_table("runs", ["run"], [[name]])
    printed = capsys.readouterr()
    for text in (printed.out, printed.err):
        assert "\\u001b]0;owned\\u0007\\u001b[2Jb\\u202ec\\u009b" in text
        assert not {"\x1b", "\x07", "\u202e", "\x9b"} & set(text)
