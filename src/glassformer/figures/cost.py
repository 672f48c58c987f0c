"""Arrays -> cost against quality: one point per variant, its interval, its name beside it. Knows nothing of studies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.figure import Figure

from glassformer.figures.curves import short_number
from glassformer.figures.style import INK, PALETTE, new_axes, styled


@dataclass(frozen=True)
class CostPoint:
    """What one variant cost and reached; the interval where there is one."""

    name: str
    cost: float
    value: float
    low: float | None = None
    high: float | None = None


def cost_against_quality(points: Sequence[CostPoint], *, cost: str, quality: str, title: str = "") -> Figure:
    """Cost to the right, quality upwards as it is; the first point is the one the others are compared with."""
    with styled():
        figure, axes = new_axes()
        for index, point in enumerate(points):
            color = INK if index == 0 else PALETTE[(index - 1) % len(PALETTE)]
            if point.low is not None and point.high is not None:
                axes.plot([point.cost, point.cost], [point.low, point.high], color=color, linewidth=2.0, alpha=0.6)
            axes.plot(point.cost, point.value, marker="D" if index == 0 else "o", markersize=6.5, color=color)
            axes.annotate(
                point.name, (point.cost, point.value), xytext=(7, 4), textcoords="offset points", color=color, fontsize=9.0
            )
        axes.margins(x=0.25, y=0.15)  # room for the names
        axes.set(xlabel=cost, ylabel=quality, title=title)
        axes.xaxis.set_major_formatter(lambda value, _: short_number(value))
        return figure
