"""A text that came through a pipe: trained on, resumed and evaluated after the pipe is gone; changed text is refused."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from glassformer.cli.main import run

TEXT = "".join(f"line {number} of a text that came through a pipe\n" for number in range(60))
SMALL = [
    *("--set", "model.width=16", "--set", "model.layers=1", "--set", "model.heads=2", "--set", "model.context=16"),
    *("--set", "training.batch_size=2", "--set", "evaluation.every=4", "--set", "checkpoint.every=2"),
    *("--set", "training.schedule=constant"),
]


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLASSFORMER_CACHE", str(tmp_path / "cache"))


def train(source: str, out: Path, steps: int, *more: str) -> int:
    words = ["train", "docstrings-char", "--set", f"data.path={source}", "--set", f"training.steps={steps}", *SMALL]
    return run([*words, "--out", str(out), "--quiet", *more])


def test_is_there_again_when_it_is_needed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(TEXT.encode())))
    assert train("-", tmp_path / "run", 4) == 0
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"")))
    assert train("-", tmp_path / "run", 6, "--resume") == 0
    assert run(["evaluate", str(tmp_path / "run"), "--quiet"]) == 0


def test_a_text_that_changed_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "a.txt"
    file.write_text(TEXT)
    assert train(str(file), tmp_path / "run", 2) == 0
    file.write_text(TEXT + "more\n")
    for again in (
        lambda: train(str(file), tmp_path / "run", 4, "--resume"),
        lambda: run(["evaluate", str(tmp_path / "run"), "--quiet"]),
    ):
        assert again() == 1
        assert "the train text changed since the run began" in capsys.readouterr().err.replace("\n", " ")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "there is no text in it"),
        (b"one\nt\xffo\n", "line 2: the byte 0xff is not valid UTF-8"),
        (b"one\nt\0o\n", "line 2: contains a NUL byte"),
        (b"too short for a context of sixteen"[:12], "needs at least 17"),
    ],
)
def test_bad_text_leaves_no_run_behind(tmp_path: Path, capsys: pytest.CaptureFixture[str], content: bytes, said: str) -> None:
    file = tmp_path / "a.txt"
    file.write_bytes(content)
    assert train(str(file), tmp_path / "run", 2) == 1
    shown = capsys.readouterr()
    assert shown.out == ""
    assert said in shown.err.replace("\n", " ")
    assert not (tmp_path / "run").exists() or not [path for path in (tmp_path / "run").rglob("*") if path.is_file()]
