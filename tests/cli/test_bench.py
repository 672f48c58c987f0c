"""``glassformer bench``: a table for people, one document for programs."""

from __future__ import annotations

import json

import pytest
import torch

from glassformer.benchmark import machine, train
from glassformer.cli.main import run

SMALL = ["--width", "12", "--layers", "1", "--heads", "3", "--context", "16", "--vocabulary", "7", "--rounds", "2"]
SMALL += ["--device", "cpu", "--no-transformers"]


@pytest.fixture(autouse=True)
def _small(monkeypatch):
    deterministic = torch.are_deterministic_algorithms_enabled()
    monkeypatch.setattr(machine, "MATRIX_SIZE", {"cpu": 32})
    monkeypatch.setattr(machine, "MEMORY_BYTES", {"cpu": 4096})
    monkeypatch.setattr(train, "TOKENS", 100)
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


def test_a_folder_that_is_not_nanogpt_is_a_sentence(capsys, tmp_path):
    arguments = ["bench", "generate", *SMALL, "--prompt", "4", "--new", "5", "--nanogpt", str(tmp_path)]
    assert run(arguments) == 2
    assert "has no model.py" in capsys.readouterr().err
