"""``glassformer data`` as a user meets it: tables, JSON on standard output alone, pictures, sentences, exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from glassformer.cli.main import run


@pytest.fixture
def text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GLASSFORMER_CACHE", str(tmp_path / "cache"))
    file = tmp_path / "a.txt"
    file.write_text("".join(f"line {number % 15}\n" for number in range(20)))
    return file


def test_list(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["data", "list", "--json"]) == 0
    names = [row["name"] for row in json.loads(capsys.readouterr().out)["sets"]]
    files = ["wikitext-2", "tinyshakespeare", "speeches", "sst2", "boolq", "boolq-passages", "multi30k", "names"]
    assert names == ["docstrings", "standard-library", *files]
    assert run(["data", "list"]) == 0
    shown = capsys.readouterr()
    assert "docstrings" in shown.out
    assert "data.path" in shown.err


def test_show(text: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["data", "show", str(text), "--document", "line", "--count", "2"]) == 0
    out = capsys.readouterr().out
    assert out == f"--- 1: {text}, line 1\nline 0\n--- 2: {text}, line 2\nline 1\n"
    assert run(["data", "show", str(text), "--characters", "4", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["documents"] == [{"source": str(text), "line": 1, "text": "line", "cut": True}]


def test_show_names_the_label(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("GLASSFORMER_DATA", str(tmp_path))
    (tmp_path / "sst2").mkdir()
    for name in ("train", "dev", "test"):
        (tmp_path / "sst2" / f"{name}.txt").write_text("1 a fine film\n0 a dull one\n")
    assert run(["data", "show", "sst2"]) == 0
    assert "line 2, label negative\na dull one" in capsys.readouterr().out


def test_stats(text: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    picture = tmp_path / "lengths.svg"
    assert run(["data", "stats", str(text), "--document", "line", "--tokenizer", "word", "--out", str(picture), "--json"]) == 0
    shown = capsys.readouterr()
    facts = json.loads(shown.out)
    assert facts["splits"]["train"]["documents"] == 18
    assert picture.read_text().count("<svg") == 1
    assert str(picture) in shown.err
    assert run(["data", "stats", str(text), "--document", "line"]) == 0
    shown = capsys.readouterr()
    assert "Tokens per document" in shown.out
    assert "also occur in train" in shown.err


def test_stats_with_settings(text: Path, capsys: pytest.CaptureFixture[str]) -> None:
    changes = ["--set", "data.split.validation=0.5", "--set", "tokenizer.vocab=5"]
    assert run(["data", "stats", str(text), "--document", "line", *changes, "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["splits"]["validation"]["documents"] == 10
    assert facts["tokenizer"]["size"] == 5


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["stats", "docstring"], 2, "There is no set and no file 'docstring'. Did you mean 'docstrings'?"),
        (["stats", "TEXT", "--tokenizer", "chars"], 2, "Did you mean 'char'?"),
        (["stats", "TEXT", "--document", "page"], 2, "data.document='page'"),
        (["stats", "TEXT", "--out", "picture.gif"], 2, "use one of .svg, .png, .pdf"),
        (["show", "TEXT", "--set", "data.format=jsonl"], 1, "line 1: is not JSON"),
    ],
)
def test_mistakes_are_sentences(text: Path, capsys: pytest.CaptureFixture[str], words: list[str], code: int, said: str) -> None:
    assert run(["data", *(str(text) if word == "TEXT" else word for word in words)]) == code
    shown = capsys.readouterr()
    assert shown.out == ""
    assert said in shown.err.replace("\n", " ")
    assert shown.err.count("Error:") == 1
