"""What columns hold, by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from glassformer.data.reading.column_types import column_types

CELLS: dict[str, list[str]] = {
    "whole numbers": ["1", "-20", "+3"],
    "numbers": ["1", "2.5", "-1e-3", ".5"],
    "numbers with a comma": ["12,2", "1.200,50", "3"],
    "dates": ["2024-03-01", "1/2/2024 08:00", "2024-03-01T08:00:00"],
    "texts": ["12,2", "late", "1"],
    "whole numbers, 33% empty": ["1", "", "3"],
    "empty": ["", " ", ""],
}


@pytest.mark.parametrize("kind", ["csv", "tsv"])
def test_by_hand(kind: Any, tmp_path: Path) -> None:
    file = tmp_path / f"t.{kind}"
    between = "\t" if kind == "tsv" else ";"
    rows = [list(CELLS), *([cells[at] for cells in CELLS.values()] for at in range(3))]
    file.write_text("".join(between.join(row) + "\n" for row in rows))
    assert column_types(file, kind) == {name: name for name in CELLS}


def test_values_that_repeat(tmp_path: Path) -> None:
    file = tmp_path / "t.csv"
    file.write_text("stars, mood ,flag,flag\n" + "".join(f"{at % 5},{'ab'[at % 2]}x,text {at},yes\n" for at in range(40)))
    assert column_types(file, "csv") == {
        "stars": "whole numbers, 5 different",
        "mood": "2 different values",
        "flag (column 3)": "texts",
        "flag (column 4)": "true or false, 1 different",
    }


def test_objects_in_any_order(tmp_path: Path) -> None:
    file = tmp_path / "t.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in ({"n": 1, "l": [1], "t": None}, {"t": None, "l": [], "n": 2})))
    assert column_types(file, "jsonl") == {"n": "whole numbers", "l": "lists or objects", "t": "empty"}
