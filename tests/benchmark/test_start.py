"""Whole commands and their seconds, with stand-ins for the commands."""

from __future__ import annotations

import sys

import pytest

from glassformer.benchmark import start
from glassformer.benchmark.start import IMPORT_TORCH, NANOGPT, ONE_BY_ONE, STUDY, WARM, Peer, Work, seconds_of
from glassformer.benchmark.table import markdown
from glassformer.foundation.errors import GlassformerError


def test_seconds_of_the_wall_and_of_the_processor_differ(tmp_path) -> None:
    wall, processor = seconds_of([sys.executable, "-c", "import time; time.sleep(0.4)"], tmp_path)
    assert wall >= 0.4
    assert 0.0 <= processor < wall  # os.times counts hundredths of a second
    _, busy = seconds_of([sys.executable, "-c", "import time\nwhile time.process_time() < 0.4: pass"], tmp_path)
    assert busy > 0.3  # not 0.4: the difference of two such counts is rounded


def test_a_command_that_fails_is_a_sentence(tmp_path) -> None:
    with pytest.raises(GlassformerError, match="no such luck"):
        seconds_of([sys.executable, "-c", "raise SystemExit('no such luck')"], tmp_path)


def test_start_gives_ratios_in_one_run(monkeypatch, nanogpt) -> None:
    took = {"import torch": (1.0, 0.5), "train": (3.0, 1.0), "train.py": (8.0, 6.0)}

    def stand_in(command, folder, *, cache=None):
        return next(seconds for word, seconds in took.items() if word in command)

    monkeypatch.setattr(start, "seconds_of", stand_in)
    document = start.benchmark_start(Work(20), rounds=3, peer=Peer(nanogpt))
    assert document["ratio"][start.COLD] == {"value": 3.0, "low": 3.0, "high": 3.0, "n": 3}
    assert document["cpu_ratio"][NANOGPT]["value"] == 12.0
    assert document["times_as_long_as"] == IMPORT_TORCH
    assert "| nanoGPT | 8 (8 to 8) | 8 (8 to 8) | 6 (6 to 6) | 12 (12 to 12) |" in markdown(document)


def test_a_study_stands_beside_its_runs_one_by_one(monkeypatch) -> None:
    monkeypatch.setattr(start, "seconds_of", lambda command, *_, **__: (6.0, 5.0) if "compare" in command else (2.0, 1.0))
    document = start.benchmark_study(Work(5), vary="model.positions=none", seeds=4, rounds=1)
    assert document["seconds"][ONE_BY_ONE]["value"] == 16.0  # 2 variants by 4 seeds
    assert document["ratio"][STUDY]["value"] == 1.0
    assert document["cpu_ratio"][ONE_BY_ONE]["value"] == 1.6


def test_a_recipe_is_trained_as_it_stands(monkeypatch) -> None:
    commands: list[list[str]] = []
    monkeypatch.setattr(start, "seconds_of", lambda command, *_, **__: commands.append(command) or (1.0, 1.0))
    monkeypatch.setattr(start, "_losses", lambda run: {WARM: 1.25})
    document = start.benchmark_start(Work(30, "gpt-nano-words", ("training.lr=0.1",)), rounds=1)
    words = commands[1][commands[1].index("train") + 1 :]
    assert words[:5] == ["gpt-nano-words", "--set", "training.steps=30", "--set", "training.lr=0.1"]
    assert not any(key in word for key in start.TINY for word in words)
    assert document["validation_loss"] == {WARM: 1.25}
    assert "| 1.2500 |" in markdown(document)


def test_a_run_whose_objective_has_no_loss_has_none_in_the_table(tmp_path) -> None:
    (tmp_path / "metrics.jsonl").write_text('{"step": 3, "validation_exact_match": 0.5}\n')
    assert start._losses(tmp_path) == {}
    (tmp_path / "metrics.jsonl").write_text('{"step": 3, "validation_loss": 2.5}\n{"step": 4, "validation_loss": 1.5}\n')
    assert start._losses(tmp_path) == {WARM: 1.5}
