"""Writes the results of docs/atlas.md from the records of the package: `python docs/make_atlas.py`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from glassformer.atlas.cells import Cell, cells
from glassformer.atlas.page import document
from glassformer.atlas.protocol import Atlas
from glassformer.atlas.records import Records, records_folder

PAGE = Path(__file__).with_name("atlas.md")
BETWEEN = re.compile(r"(<!-- results -->\n).*?(<!-- /results -->)", re.DOTALL)


def shown(cell: Cell | None) -> str:
    """A word with its difference and interval in thousandths of a nat."""
    if cell is None or cell.word == "open":
        return "*open*" if cell is not None else ""
    value, low, high = (
        None if one is None else 1000 * one for one in (cell.difference.value, cell.difference.low, cell.difference.high)
    )
    if value is None or cell.word == "invalid":
        return f"**{cell.word}**"
    ends = "" if low is None or high is None else f" [{low:+.0f}, {high:+.0f}]"
    return f"**{cell.word}** {value:+.1f}{ends}"


def results() -> str:
    """The table of every row that was run, and what the controls did."""
    atlas, records = Atlas.load(), Records.load([records_folder()])
    found = cells(atlas, records)
    known = document(atlas, records, found)
    summary, every = known["summary"], [(one["size"], one["text"]) for one in known["columns"] if one["base"] == "modern"]
    if not summary["cells"]:
        return "No cell has been run yet: every row is *open*.\n"
    by_place = {(cell.row.name, cell.size, cell.text): cell for cell in found if cell.base == "modern"}
    there = {(cell.size, cell.text) for cell in found if cell.base == "modern" and cell.word != "open"}
    columns = [(size, text) for size, text in every if not atlas.protocol.texts[text].apart and (size, text) in there]
    apart = [place for place in every if place in there and place not in columns]
    s = summary
    lines = [
        f"{s['rows']} changes in {s['cells']} cells from {s['runs']} runs. Placebos: {s['placebo_false_words']} of "
        f"{s['placebo_cells']} cells were called better, worse or invalid. Rulers: {s['rulers_found']} of {s['ruler_cells']} "
        f"found. Positive controls: {s['controls_invalid']} of {s['control_cells']} invalid. By chance about "
        f"{s['expected_false_words']} words would be false.",
        "",
        "Differences from the baseline in thousandths of a nat per byte with corrected 95 % intervals; less is better. "
        "*Worth*: in steps of the baseline, in the first column that has it. *Rate*: whether the learning rate was tuned for "
        "the row.",
        "",
        *table(atlas, known["rows"], by_place, columns),
    ]
    if apart:
        lines += ["", "Skills, and texts that are read many times, in the same units:", ""]
        lines += table(atlas, known["rows"], by_place, apart)
    return "\n".join(lines) + "\n"


def table(
    atlas: Atlas, rows: list[dict[str, Any]], by_place: dict[tuple[str, str, str], Cell], columns: list[tuple[str, str]]
) -> list[str]:
    """Lines of the rows that were run on these columns (size, text)."""
    names = [f"{size}: {atlas.protocol.texts[text].title}" for size, text in columns]
    lines = [f"| change | {' | '.join(names)} | worth | with size | rate |", f"|---|{'---|' * len(names)}---|---|---|"]
    for row in sorted(rows, key=lambda row: (row["role"] != "row", row["role"], row["family"], row["title"])):
        own = [by_place.get((row["name"], size, text)) for size, text in columns]
        first = next((cell for cell in own if cell is not None and cell.word != "open"), None)
        if first is None:
            continue
        worth = first.worth.more_steps.value if first.worth is not None else None
        trend = next((cell.trend.short for cell in own if cell is not None and cell.trend is not None), "")
        rate = re.split("[:;]", first.rate_note)[0] if row["role"] == "row" else ""
        said = "" if worth is None else f"{100 * worth:+.0f} %"
        lines.append(f"| {row['title']} ({row['year']}) | {' | '.join(map(shown, own))} | {said} | {trend} | {rate} |")
    return lines


if __name__ == "__main__":
    text = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(BETWEEN.sub(lambda found: found[1] + results() + found[2], text), encoding="utf-8")
