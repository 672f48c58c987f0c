"""docs/reweight.md: its table is the stored measurement, its console lines are what the check says, its snippet runs."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import glassformer as gf
from glassformer.evaluation.interval_estimates import mean
from glassformer.recipe import load_recipe

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "reweight.md").read_text(encoding="utf-8")
MEASURED: dict[str, dict[str, list[float]]] = json.loads((DOCS / "measurements" / "reweight.json").read_text(encoding="utf-8"))
MERGES = ["concat", "reweight", "reweight_sequence", "reweight_position"]


def means(merge: str) -> list[float]:
    return [float(np.mean(losses)) for losses in MEASURED[merge].values()]


def test_the_table_is_the_measurement() -> None:
    assert list(MEASURED) == MERGES
    for merge, ways in MEASURED.items():
        assert all(len(losses) == 5 for losses in ways.values())
        assert f"| `{merge}` | {' | '.join(str(mean(np.array(losses))) for losses in ways.values())} |" in PAGE
    assert f"| merge | {' | '.join(MEASURED['concat'])} |" in PAGE


def test_the_sentences_say_what_the_measurement_says() -> None:
    honest, leaky = means("concat"), means("reweight")
    assert f"beats concatenation by {honest[0] - leaky[0]:.2f} nats" in PAGE
    assert f"a perplexity {100 * (1 - math.exp(leaky[0] - honest[0])):.0f} % lower" in PAGE
    assert f"Here it is {leaky[2] - honest[2]:.2f} nats *worse*" in PAGE
    assert max(MEASURED["reweight"]["one window at a time"]) < min(MEASURED["concat"]["one window at a time"])
    assert min(MEASURED["reweight"]["from the past alone"]) > max(MEASURED["concat"]["from the past alone"])
    paired = mean(np.array(MEASURED["reweight_position"]["from the past alone"]) - MEASURED["concat"]["from the past alone"])
    assert f"worth: {paired.value:.3f} [{paired.low:.3f}, {paired.high:.3f}] nats worse than" in PAGE
    for merge in ("concat", "reweight_position"):
        assert np.ptp(means(merge)) < 1e-5


def test_the_recipe_tells_the_same() -> None:
    result = load_recipe("reweight-story").result
    for merge in ("concat", "reweight", "reweight_position"):
        assert str(mean(np.array(MEASURED[merge]["one window at a time"]))) in result
    assert str(mean(np.array(MEASURED["reweight"]["from the past alone"]))) in result


@pytest.mark.parametrize("merge", ["reweight", "reweight_sequence"])
def test_the_check_says_what_the_page_shows(merge: str) -> None:
    shown = PAGE.split(f"$ glassformer check reweight-story --set model.merge={merge}\n")[1].split("```")[0].splitlines()[1:]
    report = gf.check("reweight-story", set={"model.merge": merge})
    lines = report.lines()
    assert len(lines) == len(shown)
    for line, told in zip(lines, shown):  # sizes depend on the docstrings of this Python, so on its vocabulary
        assert line.split(" by ")[0] == told.split(" by ")[0]
        assert line.split("It enters at")[1:] == told.split("It enters at")[1:]


@pytest.mark.slow
def test_the_snippet_runs_shortened(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(DOCS.parent / "src"), "PYTHONWARNINGS": "error"}
    words = [sys.executable, str(DOCS / "snippets" / "reweight.py"), "1", "3", "32"]
    done = subprocess.run(words, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == 12
    made = json.loads((tmp_path / "story" / "figures.json").read_text(encoding="utf-8"))
    assert {merge: list(ways) for merge, ways in made.items()} == {merge: list(ways) for merge, ways in MEASURED.items()}
