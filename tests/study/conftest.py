"""A study small enough for tests: a text that a tiny model learns in a second, and a recipe for it."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

LETTERS = "abcdefgh"


def markov_text(lines: int = 90, length: int = 31, seed: int = 3) -> str:
    """Lines in which the next letter mostly follows from the one before: far below a unigram's loss within some steps."""
    chance = random.Random(seed)
    follows = {letter: LETTERS[(3 * index + 1) % len(LETTERS)] for index, letter in enumerate(LETTERS)}
    rows = []
    for _ in range(lines):
        row = [chance.choice(LETTERS)]
        while len(row) < length:
            row.append(follows[row[-1]] if chance.random() < 0.85 else chance.choice(LETTERS))
        rows.append("".join(row))
    return "\n".join(rows) + "\n"


@pytest.fixture(scope="session")
def text_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("text") / "letters.txt"
    file.write_text(markov_text(), encoding="utf-8")
    return file


@pytest.fixture
def recipe(text_file: Path) -> dict[str, Any]:
    """Plain values of a recipe whose runs take about a second."""
    return {
        "data": {"path": str(text_file), "document": "line"},
        "tokenizer": "char",
        "model": {"width": 12, "layers": 1, "heads": 3, "context": 7},
        "training": {"steps": 24, "batch_size": 10, "lr": 0.03, "device": "cpu"},
        "evaluation": {"every": 12},
        "checkpoint": {"every": 8},
    }
