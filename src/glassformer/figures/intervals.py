"""Arrays -> the figures of a study: differences from a baseline with their intervals, and cost against quality.

Takes numbers and words only; knows nothing of studies.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from glassformer.figures.curves import short_number
from glassformer.figures.style import GRID, INK, PALETTE, SOFT, new_axes, styled

# Words that are decided have a colour; the word itself is always written, so nothing rests on colour alone.
WORD_COLORS = {"better": PALETTE[2], "worse": PALETTE[1], "same": PALETTE[0]}
LONGEST_LABEL = 34


@dataclass(frozen=True)
class IntervalRow:
    """One change: the mean difference with its interval (None where there is none), the seeds' differences, the word."""

    label: str
    word: str
    value: float | None = None
    low: float | None = None
    high: float | None = None
    dots: tuple[float, ...] = ()


def difference_intervals(
    rows: Sequence[IntervalRow], *, margin: float | None, unit: str, lower_is_better: bool = True, title: str = ""
) -> Figure:
    """One line per change, first on top: its interval, every seed a dot, the margin a band, the verdict a word.

    Zero is the baseline. The arrows say which way is better.
    """
    with styled():
        figure, axes = new_axes(height=max(1.7, 1.15 + 0.52 * len(rows)))
        if margin is not None:
            axes.axvspan(-margin, margin, color=GRID, alpha=0.75, linewidth=0, zorder=0)
        axes.axvline(0.0, color=SOFT, linewidth=1.0)
        _reach(axes, rows, margin)
        for place, row in enumerate(rows):
            _row(axes, row, place)
            _beyond(axes, row, place)
        _labels(axes, rows)
        _ways(axes, lower_is_better)
        band = "" if margin is None else f"\ngrey: within the margin of {margin:g}"
        axes.set_xlabel(f"difference from the baseline ({unit}){band}")
        axes.set_title(title, pad=20)
        return figure


def value_intervals(rows: Sequence[IntervalRow], *, unit: str) -> Figure:
    """One line per variant, first on top: every seed a dot, the mean with its interval."""
    with styled():
        figure, axes = new_axes(height=max(1.7, 1.15 + 0.52 * len(rows)))
        for place, row in enumerate(rows):
            _row(axes, row, place)
        _labels(axes, rows)
        axes.set(xlabel=unit)
        return figure


def _labels(axes: Axes, rows: Sequence[IntervalRow]) -> None:
    """The names of the rows, first on top."""
    axes.set_yticks(range(len(rows)), [_short(row.label) for row in rows], color=INK)
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.grid(visible=False, axis="y")
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)


def _row(axes: Axes, row: IntervalRow, place: int) -> None:
    color = WORD_COLORS.get(row.word, SOFT)
    dots = np.asarray(row.dots, dtype=np.float64)
    dots = dots[np.isfinite(dots)]
    axes.scatter(dots, place + _apart(dots), s=15, color=color, alpha=0.55, linewidth=0, zorder=3)
    if row.low is not None and row.high is not None:
        axes.plot([row.low, row.high], [place, place], color=color, linewidth=2.4, solid_capstyle="butt", zorder=2)
    if row.value is not None:
        axes.plot(
            row.value, place, marker="D", markersize=6, color=color, markeredgecolor="white", markeredgewidth=0.9, zorder=4
        )
    where: dict[str, Any] = {"xycoords": ("axes fraction", "data"), "xytext": (8, 0), "textcoords": "offset points"}
    weight = "bold" if row.word in WORD_COLORS else "normal"
    axes.annotate(
        row.word, (1.0, place), va="center", ha="left", color=color, fontweight=weight, annotation_clip=False, **where
    )


def _beyond(axes: Axes, row: IntervalRow, place: int) -> None:
    """The number of a row that lies outside the picture, at the edge it lies beyond."""
    low, high = axes.get_xlim()
    if row.value is None or low <= row.value <= high:
        return
    left = row.value < low
    axes.annotate(
        f"◀ {row.value:.3g}" if left else f"{row.value:.3g} ▶",
        (0.0 if left else 1.0, place),
        xycoords=("axes fraction", "data"),
        xytext=(4 if left else -4, 0),
        textcoords="offset points",
        ha="left" if left else "right",
        va="center",
        color=SOFT,
        fontsize=9.0,
    )


def _ways(axes: Axes, lower_is_better: bool) -> None:
    left, right = ("better", "worse") if lower_is_better else ("worse", "better")
    where: dict[str, Any] = {"xycoords": "axes fraction", "textcoords": "offset points", "color": SOFT, "fontsize": 9.0}
    axes.annotate(f"← {left}", (0.0, 1.0), xytext=(0, 4), ha="left", va="bottom", **where)
    axes.annotate(f"{right} →", (1.0, 1.0), xytext=(0, 4), ha="right", va="bottom", **where)


def _apart(dots: np.ndarray) -> np.ndarray:
    """Small steps up and down in turn along the sorted dots, so that equal seeds stay visible as several."""
    offsets = np.empty(len(dots))
    offsets[np.argsort(dots, kind="stable")] = np.resize([0.17, 0.25], len(dots))
    return offsets


def _reach(axes: Axes, rows: Sequence[IntervalRow], margin: float | None) -> None:
    """All valid rows fit, with zero and the margin inside; a variant that cheats may be far off and must not squeeze them."""
    valid = [row for row in rows if row.word != "invalid"] or rows
    numbers = [0.0, *(number for row in valid for number in (row.value, row.low, row.high, *row.dots) if number is not None)]
    numbers += [] if margin is None else [-1.4 * margin, 1.4 * margin]
    finite = [number for number in numbers if np.isfinite(number)]
    low, high = min(finite), max(finite)
    pad = 0.04 * (high - low) or 1.0
    axes.set_xlim(low - pad, high + pad)


def _short(label: str) -> str:
    return label if len(label) <= LONGEST_LABEL else f"{label[: LONGEST_LABEL - 1]}…"


@dataclass(frozen=True)
class CostPoint:
    """What one variant cost and reached; the interval where there is one."""

    name: str
    cost: float
    value: float
    low: float | None = None
    high: float | None = None


NAME = 9.0
"""Points: the height of a point's name."""


def _names_apart(axes: Axes, points: Sequence[CostPoint]) -> list[float]:
    """How far above its point each name stands, so that the names of neighbours are one below the other, the first on top."""
    axes.autoscale_view()  # the limits that the points will have
    pixel = 72.0 / axes.figure.dpi
    at = [(x * pixel, y * pixel) for x, y in axes.transData.transform([(point.cost, point.value) for point in points])]
    heights: list[float] = []
    for number, (x, y) in enumerate(at):
        near = [
            heights[other]
            for other, (x_other, _) in enumerate(at[:number])
            if abs(x - x_other) < 0.6 * NAME * max(len(points[number].name), len(points[other].name))
        ]
        height = y + 4.0
        while any(abs(height - taken) < 1.4 * NAME for taken in near):
            height -= 0.2 * NAME
        heights.append(height)
    return [height - y for height, (_, y) in zip(heights, at)]


def cost_against_quality(points: Sequence[CostPoint], *, cost: str, quality: str) -> Figure:
    """Cost to the right, quality upwards as it is; the first point is the one the others are compared with."""
    with styled():
        figure, axes = new_axes()
        for index, point in enumerate(points):
            color = INK if index == 0 else PALETTE[(index - 1) % len(PALETTE)]
            if point.low is not None and point.high is not None:
                axes.plot([point.cost, point.cost], [point.low, point.high], color=color, linewidth=2.0, alpha=0.6)
            axes.plot(point.cost, point.value, marker="D" if index == 0 else "o", markersize=6.5, color=color)
        axes.margins(x=0.25, y=0.15)  # room for the names
        raised_by = _names_apart(axes, points)
        for index, (point, raised) in enumerate(zip(points, raised_by)):
            color = INK if index == 0 else PALETTE[(index - 1) % len(PALETTE)]
            place, beside = (point.cost, point.value), (7.0, raised)
            axes.annotate(point.name, place, xytext=beside, textcoords="offset points", color=color, fontsize=NAME)
        axes.set(xlabel=cost, ylabel=quality)
        axes.xaxis.set_major_formatter(lambda value, _: short_number(value))
        return figure


@dataclass(frozen=True)
class SizeLine:
    """One change over model sizes: (parameters, gain, low, high) at each, the word of its trend and the slope per decade."""

    label: str
    word: str
    points: tuple[tuple[float, float | None, float | None, float | None], ...]
    slope: float | None = None


def gains_by_size(lines: Sequence[SizeLine], *, margin: float, unit: str, title: str = "") -> Figure:
    """Gain upwards over the logarithm of parameters: points with intervals, and the fitted line of each change."""
    with styled():
        figure, axes = new_axes(height=3.6)
        axes.axhspan(-margin, margin, color=GRID, alpha=0.75, linewidth=0, zorder=0)
        axes.axhline(0.0, color=SOFT, linewidth=1.0)
        axes.set_xscale("log")
        for place, line in enumerate(lines):
            color = PALETTE[place % len(PALETTE)]
            known = [(x * 1.06 ** (place - (len(lines) - 1) / 2), *rest) for x, *rest in line.points if rest[0] is not None]
            for x, value, low, high in known:
                if low is not None and high is not None:
                    axes.plot([x, x], [low, high], color=color, linewidth=2.2, solid_capstyle="butt")
                axes.plot(x, value, marker="D", markersize=6, color=color, markeredgecolor="white", markeredgewidth=0.9)
            if line.slope is not None and known:
                xs = np.array([x for x, *_ in known])
                middle = float(np.mean([float(value or 0.0) for _, value, *_ in known]))
                fitted = middle + line.slope * (np.log10(xs) - np.log10(xs).mean())
                axes.plot(xs, fitted, color=color, linewidth=1.4, alpha=0.7, label=f"{_short(line.label)}: {line.word}")
            else:
                axes.plot([], [], color=color, label=f"{_short(line.label)}: {line.word}")
        sizes = sorted({x for line in lines for x, *_ in line.points})
        axes.set_xticks(sizes, [short_number(size) for size in sizes])
        axes.minorticks_off()
        axes.set(xlabel="parameters of the baseline", ylabel=f"gain ({unit})\ngrey: the margin of {margin:g}", title=title)
        axes.legend(loc="best")
        return figure


def cost_growth(growth: Mapping[str, Sequence[tuple[str, float]]], *, unit: str) -> Figure:
    """Side by side, how the whole cost grows with each of several things; what is to the left is included."""
    with styled():
        figure = Figure(figsize=(8.4, 3.0), layout="constrained")
        every = figure.subplots(1, len(growth), sharey=True)
        for axes, (what, rows) in zip(np.atleast_1d(every), growth.items()):
            places = [int(name) if what == "seeds" else at for at, (name, _) in enumerate(rows)]
            axes.plot(places, [cost for _, cost in rows], marker="o", markersize=5, color=PALETTE[0])
            axes.set_xticks(places, [_short(name) for name, _ in rows], rotation=30 if what != "seeds" else 0, ha="center")
            axes.set_ylim(bottom=0.0)
            axes.set_title(f"with {what}")
        np.atleast_1d(every)[0].set_ylabel(unit)
        return figure
