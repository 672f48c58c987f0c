"""The merges of a word -> a picture: one row of boxes per merge, from single symbols down to tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch

# Okabe and Ito's blue and orange, made pale: readable under black text, told apart by colour-blind people.
_PLAIN, _FRESH, _EDGE, _INK = "#e8eef4", "#f6c667", "#7a8894", "#222222"
_GAP = 0.06  # between boxes, in widths of a symbol


@dataclass(frozen=True)
class MergeRow:
    """The word at one moment. ``pieces``: (text, how many symbols it spans); ``fresh``: which piece was just merged."""

    label: str
    pieces: Sequence[tuple[str, int]]
    fresh: int | None = None


def draw_merges(rows: Sequence[MergeRow], title: str) -> Figure:
    """Time runs downwards. Every piece stands under the symbols it is made of."""
    if not rows:
        raise ValueError("draw_merges needs at least one row.")
    symbols = max(sum(span for _, span in row.pieces) for row in rows)
    longest = max(len(row.label) for row in rows)
    margin = 0.085 * longest + 0.3  # inches for the labels, at 9 points
    unit = max(0.42, *(0.1 * (len(text) + 1) / span for row in rows for text, span in row.pieces))  # inches per symbol
    width, height = margin + unit * symbols + 0.2, 0.45 * len(rows) + 0.6
    figure = Figure(figsize=(width, height))
    axes = figure.add_axes((margin / width, 0.1 / height, unit * symbols / width, 0.45 * len(rows) / height))
    for depth, row in enumerate(rows):
        start = 0
        for index, (text, span) in enumerate(row.pieces):
            colour = _FRESH if index == row.fresh else _PLAIN
            box = (start + _GAP / 2, depth + 0.14), span - _GAP, 0.72
            axes.add_patch(FancyBboxPatch(*box, boxstyle="square,pad=0", facecolor=colour, edgecolor=_EDGE, linewidth=0.8))
            axes.text(start + span / 2, depth + 0.5, text, ha="center", va="center", color=_INK, fontsize=10, parse_math=False)
            start += span
        axes.text(-0.1 / unit, depth + 0.5, row.label, ha="right", va="center", color=_INK, fontsize=9, parse_math=False)
    axes.set(xlim=(0, symbols), ylim=(len(rows), 0))
    axes.set_axis_off()
    figure.text(0.1 / width, 1 - 0.2 / height, title, ha="left", va="center", color=_INK, fontsize=11, parse_math=False)
    return figure
