"""A student with a text of her own, a researcher with his own attention, a teacher: README and docs alone, in processes."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import glassformer

ROOT = Path(__file__).parents[2]


def environment() -> dict[str, str]:
    """Read when a test runs: by then the cache is the tests' own."""
    return os.environ | {"PYTHONPATH": str(Path(glassformer.__file__).parents[1]), "OMP_NUM_THREADS": "1"}


SMALL = ["--set", "training.steps=30", "--set", "evaluation.every=15", "--set", "checkpoint.every=15"]


def story(lines: int = 120) -> str:
    words = ["the", "cat", "sat", "on", "a", "mat", "and", "then", "it", "ran", "to", "see", "an", "old", "red", "hen"]
    return (
        "\n".join(" ".join(words[(7 * line + 3 * place) % 16] for place in range(4 + line % 5)) for line in range(lines)) + "\n"
    )


@pytest.fixture
def say(tmp_path: Path):
    """``say("train", "mine.txt")``: standard output and error of the real command in a folder of its own."""

    def call(*words: str, code: int = 0) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "glassformer", *words]
        done = subprocess.run(
            command, cwd=tmp_path, env=environment(), capture_output=True, text=True, timeout=570, check=False
        )
        assert done.returncode == code, done.stderr
        return done

    return call


@pytest.mark.slow
def test_the_student(say, tmp_path) -> None:
    """Her file to a model, its figures, its page, and a verdict about a change; then the same run in Python."""
    (tmp_path / "mine.txt").write_text(story(), encoding="utf-8")
    told = say("train", "mine.txt", "--dry-run").stdout
    assert "ms a step" in told
    trained = say("train", "mine.txt", "--samples", "20", "--note", "my first", *SMALL)
    assert "A character model of mine.txt" in trained.stderr
    assert "step 15 of 30: validation loss" in trained.stderr
    assert "left" in trained.stderr
    assert "Next: glassformer evaluate runs/mine" in trained.stderr
    assert "bigram" in say("evaluate", "runs/mine").stdout
    assert "the cat" in say("generate", "runs/mine", "the cat", "--max-new-tokens", "10").stdout
    assert say("report", "runs/mine").stdout.strip() == "runs/mine/report.html"
    say("train", "runs/mine", "--resume", "--set", "training.steps=40")
    assert "my first" in say("runs", "--all").stdout
    words = ["--vary", "model.positions=none", "--seeds", "6", *SMALL, "--out", "study", "--json"]
    (verdict,) = json.loads(say("compare", "mine.txt", *words).stdout)["verdicts"]
    assert verdict["verdict"] in ("better", "worse", "same", "not decided")
    program = (
        "import glassformer as gf; run = gf.load('runs/mine'); print(run.evaluate().loss, run.token_losses('the cat').shape)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    assert done.stdout.endswith("(6,)\n")


@pytest.mark.slow
def test_the_researcher(say, tmp_path) -> None:
    """His own attention from docs/plugins.md: conformance, training, a slip in it, and a study with it."""
    (tmp_path / "mine.txt").write_text(story(), encoding="utf-8")
    shutil.copy(ROOT / "docs" / "snippets" / "my_attention.py", tmp_path / "my_attention.py")
    plugin = ["--plugin", "my_attention.py"]
    assert "held: model.mixer=window-laws" in say("check", "--conformance", "my_attention.py").stdout
    trained = say("train", "mine.txt", "--set", "model.mixer=window", *plugin, *SMALL, "--out", "windowed")
    assert "--plugin my_attention.py" in trained.stderr
    asks = say("evaluate", "windowed", code=1)
    assert "It was made with --plugin my_attention.py: give them again." in asks.stderr
    say("evaluate", "windowed", *plugin)
    words = ["--vary", "model.mixer=window", "--seeds", "6", *SMALL, *plugin]
    assert "12 runs" in say("compare", "mine.txt", *words, "--dry-run").stdout
    (verdict,) = json.loads(say("compare", "mine.txt", *words, "--out", "study", "--json").stdout)["verdicts"]
    assert verdict["variant"] == "model.mixer=window"
    cheat = say("compare", "mine.txt", "--vary", "model.causal=false", "--seeds", "2", *SMALL, "--out", "cheat", "--json")
    assert json.loads(cheat.stdout)["verdicts"][0]["verdict"] == "invalid"
    text = (tmp_path / "my_attention.py").read_text(encoding="utf-8")
    (tmp_path / "my_attention.py").write_text(text.replace("split_heads(part", "split_headss(part"), encoding="utf-8")
    wrong = say("train", "mine.txt", "--set", "model.mixer=window", *plugin, *SMALL, "--out", "wrong", code=1)
    assert "my_attention.py, line " in wrong.stderr
    assert "bug in Glassformer" not in wrong.stderr


def test_the_teacher(say, tmp_path) -> None:
    """A sheet without answers, a solution beside it, a plan with few seeds, a name mistyped."""
    sheet = say("byhand", "select", "1", "--keys", "1,0;0,1;-1,-1", "--exercise", "--out", "solution.html")
    assert "Exercise." in sheet.stdout
    assert (tmp_path / "solution.html").is_file()
    assert "Did you mean 'positions'?" in say("compare", "positons", code=2).stderr
    small = ["--set", "model.layers=1", "--set", "model.width=16", "--set", "model.context=16", "--set", "training.steps=2"]
    small += ["--set", "data.set=docstrings", "--set", "model.heads=2"]
    told = say("compare", "positions", "--seeds", "2", "--dry-run", *small)
    assert "With 2 seeds nothing will be decided" in told.stdout
