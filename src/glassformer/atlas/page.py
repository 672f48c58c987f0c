"""Cells -> one offline HTML page with a sortable table, and the same as JSON and CSV. Imports no torch."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from glassformer.atlas.cells import OPEN, UNTESTABLE, Cell, expected_false_words, over_texts
from glassformer.atlas.protocol import Atlas, Row
from glassformer.atlas.records import Records
from glassformer.figures.html_document import drawn_document
from glassformer.foundation.files import write_atomically
from glassformer.runs.records import csv_text

TITLE = "What changed a Transformer, and whether it did here"


def document(atlas: Atlas, records: Records, cells: Sequence[Cell], margin: float | None = None) -> dict[str, Any]:
    """Everything the page shows, as plain values."""
    rows = [row for row in atlas.rows.values() if any(cell.row.name == row.name for cell in cells)]
    overall = over_texts(atlas, cells, margin)
    protocol = atlas.protocol
    there = {(cell.base, cell.size, cell.text) for cell in cells}
    every = [(base, size, text) for base in protocol.bases for size in protocol.sizes for text in protocol.texts]
    return {
        "title": TITLE,
        "margin": margin or protocol.margin,
        "bases": {name: base.title for name, base in protocol.bases.items()},
        "texts": {name: {"title": text.title, "about": text.about} for name, text in protocol.texts.items()},
        "sizes": {name: {"title": size.title, "steps": size.steps} for name, size in protocol.sizes.items()},
        "tuning": {"text": protocol.tuning_text, "size": protocol.tuning_size},
        "columns": [dict(zip(("base", "size", "text"), one)) for one in every if one in there],
        "rows": [
            {**row.to_dict(), "bibtex": bibtex(row), "overall": overall[row.name].to_dict() if row.name in overall else None}
            for row in rows
        ],
        "cells": [cell.to_dict() for cell in cells],
        "summary": summary(atlas, records, cells),
        "machines": records.machines,
    }


def summary(atlas: Atlas, records: Records, cells: Sequence[Cell]) -> dict[str, Any]:
    """What the controls say, and how much has run."""

    def words(role: str) -> list[str]:
        return [cell.word for cell in cells if cell.row.role == role and cell.word != OPEN]

    placebos, rulers, leaks = words("placebo"), words("ruler"), words("leak")
    judged = [cell for cell in cells if cell.word not in (OPEN, UNTESTABLE)]
    return {
        "runs": len(records.trials),
        "cells": len(judged),
        "rows": len({cell.row.name for cell in judged if cell.row.role == "row"}),
        "placebo_cells": len(placebos),
        "placebo_false_words": sum(word in ("better", "worse", "invalid") for word in placebos),
        "ruler_cells": len(rulers),
        "rulers_found": sum(word in ("better", "worse") for word in rulers),
        "control_cells": len(leaks),
        "controls_invalid": sum(word == "invalid" for word in leaks),
        "expected_false_words": round(expected_false_words(judged), 2),
        "contradictions": len(records.contradictions),
    }


def bibtex(row: Row) -> str:
    """The citation of a row's source, as far as the row knows it."""
    if row.role != "row":
        return ""
    first, _, rest = row.source.partition(";")[0].partition(f" {row.year}")
    title = rest.lstrip(", ").strip() or row.title
    return f"@misc{{{row.name}, author = {{{first.strip()}}}, title = {{{title}}}, year = {{{row.year}}}}}"


def to_csv(cells: Sequence[Cell]) -> str:
    """One line per cell."""
    lines = []
    for cell in cells:
        known, difference = cell.to_dict(), cell.difference
        about = {key: getattr(cell.row, key) for key in ("title", "slot", "year", "kind")}
        figures = {"difference": difference.value, "low": difference.low, "high": difference.high, "seeds": len(cell.losses)}
        worth = {"worth_more_steps": None if cell.worth is None else cell.worth.more_steps.value}
        first = {key: known[key] for key in ("row", "text", "size", "base", "word")}
        last = {key: known[key] for key in ("p_corrected", "rate", "rate_note", "parameters", "flops", "speed", "command")}
        lines.append({**first, **about, **figures, **worth, **last})
    return csv_text([{key: _short(value) for key, value in line.items()} for line in lines])


def _short(value: Any) -> Any:
    if isinstance(value, float):
        return "" if math.isnan(value) else f"{value:.6g}"
    return f"'{value}" if isinstance(value, str) and value[:1] in ("=", "+", "-", "@") else value  # no formula in a spreadsheet


def render(known: dict[str, Any]) -> str:
    """The whole page; it loads nothing."""
    return drawn_document("atlas", known, title=TITLE, script=_static("atlas.js"), style=_static("atlas.css"))


def write(folder: Path, known: dict[str, Any], cells: Sequence[Cell]) -> list[Path]:
    """atlas.html, atlas.json and atlas.csv."""
    folder.mkdir(parents=True, exist_ok=True)
    contents = {
        "atlas.html": render(known),
        "atlas.json": json.dumps(known, ensure_ascii=False, allow_nan=False, indent=1) + "\n",
        "atlas.csv": to_csv(cells),
    }
    for name, content in contents.items():
        write_atomically(folder / name, content)
    return [folder / name for name in contents]


def _static(name: str) -> str:
    return files("glassformer.atlas").joinpath("static", name).read_text(encoding="utf-8")
