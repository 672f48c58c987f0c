"""What the columns of a table hold, from its first rows: numbers, dates, a few values or texts. Only said, never acted on."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from glassformer.data.config import FormatKind
from glassformer.data.reading.tables import column_names, rows_of
from glassformer.foundation.errors import DataError

ROWS = 1000
"""Rows that are looked at."""
FEW = 20
"""Different values, at most, of a column that repeats them; and no more than one for four cells."""
_KINDS = {  # the first that all cells of a column match
    "true or false": re.compile(r"(?i:true|false|yes|no)"),
    "whole numbers": re.compile(r"[+-]?\d+"),
    "numbers": re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?"),
    "numbers with a comma": re.compile(r"[+-]?\d+(\.\d{3})*,\d+|[+-]?\d+(,\d{3})+(\.\d+)?|[+-]?\d+"),
    "dates": re.compile(r"(\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|\d{1,2}[-/.]\d{1,2}[-/.]\d{2,4})([T ]\d{1,2}:\d{2}.*)?"),
}


def column_types(file: Path, kind: FormatKind) -> dict[str, str]:
    """By column, what it holds."""
    header = column_names(file, kind)
    rows = [row for _, row in islice(rows_of(file, kind, headed=True), ROWS) if not isinstance(row, DataError)]
    found = {}
    for at, name in enumerate(header):
        values = [row.get(name) if isinstance(row, dict) else row[at] for row in rows]
        found[f"{name} (column {at + 1})" if header.count(name) > 1 else name.strip()] = _type_of(values)
    return found


def _type_of(values: Sequence[Any]) -> str:
    there = [str(value).strip() for value in values if value is not None and not isinstance(value, dict | list)]
    cells = [cell for cell in there if cell]
    if any(isinstance(value, dict | list) for value in values):
        return "lists or objects"
    if not cells:
        return "empty"
    found = next((name for name, rule in _KINDS.items() if all(map(rule.fullmatch, cells))), "texts")
    different = len(set(cells))
    if found != "dates" and different <= FEW and different * 4 <= len(cells):
        found = f"{different} different values" if found == "texts" else f"{found}, {different} different"
    empty = len(values) - len(cells)
    return f"{found}, {empty / len(values):.0%} empty" if empty else found
