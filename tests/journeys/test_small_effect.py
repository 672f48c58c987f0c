"""Real runs of a small real effect: six seeds do not decide and say how many would; a larger study, planned, decides."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

import glassformer as gf


def text(lines: int = 1500, length: int = 31) -> str:
    """Lines in which the next letter mostly follows from the one before."""
    chance, letters = random.Random(3), "abcdefgh"
    follows = {letter: letters[(3 * index + 1) % len(letters)] for index, letter in enumerate(letters)}
    rows = []
    for _ in range(lines):
        row = [chance.choice(letters)]
        while len(row) < length:
            row.append(follows[row[-1]] if chance.random() < 0.85 else chance.choice(letters))
        rows.append("".join(row))
    return "\n".join(rows) + "\n"


@pytest.fixture
def recipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    monkeypatch.chdir(tmp_path)
    Path("text.txt").write_text(text(), encoding="utf-8")
    return {
        "data": {"path": "text.txt", "document": "line"},
        "model": {"width": 12, "layers": 1, "heads": 3, "context": 7},
        "training": {"steps": 80, "batch_size": 10, "lr": 0.01, "device": "cpu"},
        "evaluation": {"every": 80},
        "checkpoint": {"every": 80},
    }


@pytest.mark.slow
def test_a_small_effect_is_not_decided_by_six_seeds_and_is_by_a_planned_larger_study(recipe: dict[str, Any]) -> None:
    vary = {"training.batch_size": [12]}  # a fifth more text
    (few,) = gf.compare(recipe, vary, seeds=6, out="few", jobs=2).verdicts
    assert few.verdict == "not decided"
    needed = few.to_dict()["seeds_needed"]
    assert 6 < needed["low"] < needed["value"] < needed["high"] < 200
    assert f"{needed['low']}" in few.sentence
    larger = gf.compare(recipe, vary, max_seeds=16, out="larger", jobs=2)
    (many,) = larger.verdicts
    assert larger.plan.all_looks == (6, 8, 12, 16)
    assert many.verdict == "better"
    assert few.to_dict()["seeds"] == 6 < many.to_dict()["seeds"]
    print(few.sentence, many.sentence, sep="\n")


@pytest.mark.slow
def test_the_baseline_against_itself_with_other_noise_finds_nothing(recipe: dict[str, Any]) -> None:
    """Heads in another order are the same model with other initial weights."""
    (verdict,) = gf.compare(recipe, {"model.merge": ["shuffle"]}, max_seeds=16, out="itself", jobs=2).verdicts
    assert verdict.verdict in ("same", "not decided")
    print(verdict.sentence)
