"""``glassformer bench``: a table for people, one document for programs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from glassformer.benchmark import measure, speed
from glassformer.cli.main import run

SMALL = ["--width", "12", "--layers", "1", "--heads", "3", "--context", "16", "--vocabulary", "7", "--rounds", "2"]
SMALL += ["--device", "cpu"]
ATTENTION = ["bench", "attention", "--lengths", "8,16,32", "--width", "12", "--heads", "3", "--repeats", "1"]


@pytest.fixture(autouse=True)
def _small(monkeypatch):
    deterministic = torch.are_deterministic_algorithms_enabled()
    monkeypatch.setattr(measure, "MATRIX_SIZE", {"cpu": 32})
    monkeypatch.setattr(measure, "MEMORY_BYTES", {"cpu": 4096})
    monkeypatch.setattr(speed, "TOKENS", 100)
    yield
    torch.use_deterministic_algorithms(deterministic)


def test_generate_gives_one_document(capsys):
    assert run(["bench", "generate", *SMALL, "--prompt", "4", "--new", "5", "--rows", "2", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["times_as_fast_as"]["glassformer, no KV cache"]["n"] == 2


def test_train_prints_a_table(capsys):
    assert run(["bench", "train", *SMALL, "--batch", "2", "--steps", "1"]) == 0
    printed = capsys.readouterr().out
    assert "share of the matrix rate" in printed
    assert "glassformer" in printed


def test_attention_table_and_figure(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    figure = tmp_path / "scaling.svg"
    assert run([*ATTENTION, "--mixer", "synthesizer_random", "--out", str(figure)]) == 0
    printed = capsys.readouterr().out
    assert "time at 32" in printed
    assert "synthesizer_random" in printed
    assert figure.read_text(encoding="utf-8").lstrip().startswith("<?xml")


def test_attention_json_of_one_mixer(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*ATTENTION, "--mixer", "average", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    (mixer,) = document["mixers"]
    assert mixer["mixer"] == "average"
    assert mixer["lengths"] == [8, 16, 32]
    assert set(mixer["time"]) == {"exponent", "error", "n"}
    assert document["benchmark"] == "attention"
    assert {"date", "device", "threads", "torch"} <= set(document["machine"])


def test_wrong_words_of_attention(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*ATTENTION[:2], "--lengths", "8,x"]) == 2
    assert run([*ATTENTION, "--mixer", "dott"]) == 2
    assert "Did you mean 'dot'?" in capsys.readouterr().err


def test_attention_with_the_default_heads_measures_every_mixer(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["bench", "attention", "--lengths", "8,16", "--repeats", "1", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert {"dot", "grouped", "average"} <= {mixer["mixer"] for mixer in document["mixers"]}
