"""The page of published changes: every line of a recipe in it builds a model or a training config."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from glassformer.foundation.yaml_text import parse_yaml
from glassformer.model.config import ModelConfig
from glassformer.training.config import TrainingConfig

PAGE = (Path(__file__).parents[2] / "docs" / "changes.md").read_text(encoding="utf-8")
ROWS = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in PAGE.splitlines() if re.match(r"\| \d+ \|", line)]
SIZES: dict[str, Any] = {"width": 24, "heads": 2, "layers": 4, "context": 16, "positions": "none"}


def test_sixty_rows_and_the_count_is_true() -> None:
    assert [int(row[0]) for row in ROWS] == list(range(1, 61))
    there = [row for row in ROWS if not row[2].startswith("no:")]
    assert f"{len(there)} of these 60" in PAGE


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_the_lines_of_a_row_build(row: list[str]) -> None:
    if row[2].startswith("no:"):
        return
    for cell in row[2].split(" or "):
        lines = re.findall(r"`((?:model|training)\.\w+: [^`]+)`", cell)
        assert lines
        built(lines)


def built(lines: list[str]) -> None:
    chosen = {key: value for line in lines for key, value in parse_yaml(line).items()}
    parts: dict[str, dict[str, Any]] = {section: {} for section in ("model", "training")}
    for key, value in chosen.items():
        section, _, name = key.partition(".")
        parts[section][name] = value
    tied = {"head": "untied"} if "factorised" in str(chosen) else {}
    ModelConfig.parse({**SIZES, **tied, **parts["model"]}).build(11, seed=0)
    TrainingConfig.parse({"steps": 1, **parts["training"]})
