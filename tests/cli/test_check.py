"""``glassformer check`` through the command line: exit codes, JSON alone on standard output."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from glassformer.cli.main import run

FILE = """
import torch
table = torch.randn(7, 7, generator=torch.Generator().manual_seed(0))
def honest(ids):
    return table[ids].cumsum(1)
def leaky(ids):
    return honest(ids) + 1e-6 * table[ids[:, -1:]]
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "mine.py"
    path.write_text(FILE, encoding="utf-8")
    return path


def test_passes_with_zero(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["check", f"{file}:honest", "--context", "9"]) == 0
    assert "honest: passed" in capsys.readouterr().out


def test_a_broken_law_ends_with_three_and_json_is_the_contract(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["check", f"{file}:leaky", "--context", "9", "--json"]) == 3
    printed = capsys.readouterr()
    document = json.loads(printed.out)
    assert document["passed"] is False
    (finding,) = document["findings"]
    assert set(finding) == {"law", "where", "from_position", "to_position", "size", "example"}
    assert finding["law"] == "causality"
    assert "breaks causality" in printed.err


def test_an_encoder_may_see_the_future(file: Path) -> None:
    assert run(["check", f"{file}:leaky", "--context", "9", "--encoder"]) == 0


def test_wrong_words_end_with_two(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["check", f"{file}:absent"]) == 2
    assert "has no 'absent'" in capsys.readouterr().err
    assert run(["check", f"{file}:honest", "--set", "model.width=3"]) == 2


@pytest.mark.slow
def test_zoo_checks_the_named_classes_each_in_its_own_process(capsys) -> None:
    pytest.importorskip("transformers")
    assert run(["check", "--zoo", "--class", "GPT2LMHeadModel,BambaForCausalLM", "--workers", "2"]) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert first == "GPT2LMHeadModel: passed"
    assert second in ("BambaForCausalLM: breaks cache", "BambaForCausalLM: passed")  # the release of transformers decides
    assert run(["check", "--zoo", "--class", "GPT2LMHeadModell"]) == 2
    assert "Did you mean 'GPT2LMHeadModel'" in capsys.readouterr().err
    assert run(["check", "--zoo", "gpt-nano-words"]) == 2


def test_zoo_gives_a_reason_for_a_class_that_takes_too_long(capsys) -> None:
    pytest.importorskip("transformers")
    assert run(["check", "--zoo", "--class", "GPT2LMHeadModel", "--limit", "1", "--json"]) == 0
    (entry,) = json.loads(capsys.readouterr().out)["classes"]
    assert entry == {"class": "GPT2LMHeadModel", "error": "not done within 1 seconds"}
