"""Time, memory and formula against length, one small picture per part, each relative to its own value at the longest length.

Slopes can then be compared by eye: equal growth is an equal slope. Takes numbers only.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullFormatter, NullLocator

from glassformer.figures.style import PALETTE, SOFT, styled

COLUMNS = 4


@dataclass(frozen=True)
class ScalingPanel:
    """One part: its figures at each length, and what to write above and below them."""

    title: str
    note: str
    lengths: np.ndarray
    seconds: np.ndarray
    bytes: np.ndarray
    flops: np.ndarray


def scaling(panels: Sequence[ScalingPanel], *, title: str = "") -> Figure:
    """Small multiples on logarithmic axes, the same limits in all."""
    rows = max(1, math.ceil(len(panels) / COLUMNS))
    with styled():
        figure = Figure(figsize=(3.1 * min(COLUMNS, max(1, len(panels))), 2.7 * rows + 0.6), layout="constrained")
        lowest = min((_lowest(panel) for panel in panels), default=1e-3)
        for place, panel in enumerate(panels):
            axes = figure.add_subplot(rows, min(COLUMNS, len(panels)), place + 1)
            _panel(axes, panel, lowest=lowest, first=place == 0)
        figure.suptitle(title, x=0.01, ha="left", fontweight="bold", fontsize=11)
        return figure


def _lowest(panel: ScalingPanel) -> float:
    shares = [_share(figures) for figures in (panel.seconds, panel.bytes, panel.flops)]
    return float(min((share[share > 0].min() for share in shares if (share > 0).any()), default=1e-3))


def _share(figures: np.ndarray) -> np.ndarray:
    """Each figure as a share of the last; zeros where there is nothing to compare with."""
    figures = np.asarray(figures, dtype=np.float64)
    return figures / figures[-1] if figures[-1] > 0 else np.zeros_like(figures)


def _panel(axes: Axes, panel: ScalingPanel, *, lowest: float, first: bool) -> None:
    formula = _share(panel.flops)
    if formula.any():
        axes.plot(panel.lengths, formula, color=SOFT, linewidth=1.2, linestyle="--", label="formula (FLOPs)")
    for label, figures, colour, marker in (
        ("time", panel.seconds, PALETTE[0], "o"),
        ("memory", panel.bytes, PALETTE[1], "s"),
    ):
        axes.plot(panel.lengths, _share(figures), color=colour, marker=marker, markersize=3.5, label=label)
    axes.set(xscale="log", yscale="log", ylim=(lowest / 1.5, 1.6))
    axes.set_title(panel.title, fontsize=9)
    axes.set_xlabel(f"length\n{panel.note}", fontsize=8)
    axes.set_xticks(panel.lengths, [f"{length:,}" for length in panel.lengths], fontsize=7, rotation=45)
    axes.xaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, place: f"{value:g}"))
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.tick_params(axis="y", labelsize=7)
    if first:
        axes.set_ylabel("share of the value at the longest", fontsize=8)
        axes.legend(fontsize=7, loc="lower right")
