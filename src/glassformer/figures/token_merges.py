"""The merges of a word -> a picture: one row of boxes per merge, from single symbols down to tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from glassformer.figures.style import INK, SOFT, Drawing, styled

_PLAIN, _FRESH = "#e6eff7", "#f6cc7a"  # the palette's blue and orange, pale enough to stand under text
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
    margin = 0.085 * max(len(row.label) for row in rows) + 0.3  # inches, for the labels
    unit = max(0.42, *(0.1 * (len(text) + 1) / span for row in rows for text, span in row.pieces))  # inches for a symbol
    width, height = margin + unit * symbols + 0.2, 0.45 * len(rows) + 0.6
    with styled():
        figure = Drawing(figsize=(width, height))
        axes = figure.add_axes((margin / width, 0.1 / height, unit * symbols / width, 0.45 * len(rows) / height))
        axes.set(xlim=(0, symbols), ylim=(len(rows), 0))
        axes.set_axis_off()
        for depth, row in enumerate(rows):
            _draw_row(axes, row, depth)
            axes.text(-0.1 / unit, depth + 0.5, row.label, ha="right", va="center", fontsize=9, parse_math=False)
        figure.text(0.1 / width, 1 - 0.2 / height, title, ha="left", va="center", fontsize=11, parse_math=False)
    return figure


def _draw_row(axes: Axes, row: MergeRow, depth: int) -> None:
    start = 0
    for index, (text, span) in enumerate(row.pieces):
        colour = _FRESH if index == row.fresh else _PLAIN
        axes.add_patch(
            Rectangle((start + _GAP / 2, depth + 0.14), span - _GAP, 0.72, facecolor=colour, edgecolor=SOFT, linewidth=0.8)
        )
        axes.text(start + span / 2, depth + 0.5, text, ha="center", va="center", fontsize=10, color=INK, parse_math=False)
        start += span
