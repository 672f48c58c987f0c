"""``glassformer bench attention`` through the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from glassformer.cli.main import run

SMALL = ["bench", "attention", "--lengths", "8,16,32", "--width", "12", "--heads", "3", "--repeats", "1"]


def test_table_and_figure(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    figure = tmp_path / "scaling.svg"
    assert run([*SMALL, "--out", str(figure)]) == 0
    printed = capsys.readouterr().out
    assert "time at 32" in printed
    assert "synthesizer_random" in printed
    assert figure.read_text(encoding="utf-8").lstrip().startswith("<?xml")


def test_json_of_one_mixer(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*SMALL, "--mixer", "average", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    (mixer,) = document["mixers"]
    assert mixer["mixer"] == "average"
    assert mixer["lengths"] == [8, 16, 32]
    assert set(mixer["time"]) == {"exponent", "error", "n"}
    assert document["benchmark"] == "attention"
    assert {"date", "device", "threads", "torch"} <= set(document["machine"])


def test_wrong_words(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*SMALL[:2], "--lengths", "8,x"]) == 2
    assert run([*SMALL, "--mixer", "dott"]) == 2
    assert "Did you mean 'dot'?" in capsys.readouterr().err
