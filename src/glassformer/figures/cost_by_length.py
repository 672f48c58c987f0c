"""Time, memory and formula against length, one small picture per part, each relative to its own value at the longest length.

Slopes can then be compared by eye: equal growth is an equal slope. Takes numbers only.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullFormatter, NullLocator

from glassformer.figures.style import PALETTE, SOFT, Drawing, styled

COLUMNS = 4


def scaling(mixers: Sequence[Mapping[str, Any]], *, title: str = "") -> Figure:
    """Small multiples on logarithmic axes, the same limits in all. ``mixers``: those of the document of ``bench attention``."""
    rows = max(1, math.ceil(len(mixers) / COLUMNS))
    with styled():
        figure = Drawing(figsize=(3.1 * min(COLUMNS, max(1, len(mixers))), 2.7 * rows + 0.6), layout="constrained")
        lowest = min((_lowest(mixer) for mixer in mixers), default=1e-3)
        for place, mixer in enumerate(mixers):
            axes = figure.add_subplot(rows, min(COLUMNS, len(mixers)), place + 1)
            _panel(axes, mixer, lowest=lowest, first=place == 0)
        figure.suptitle(title, x=0.01, ha="left", fontweight="bold", fontsize=11)
        return figure


def _lowest(mixer: Mapping[str, Any]) -> float:
    shares = [_share(figures) for figures in (mixer["seconds"], mixer["bytes"], mixer["flops"])]
    return float(min((share[share > 0].min() for share in shares if (share > 0).any()), default=1e-3))


def _share(figures: Sequence[float]) -> np.ndarray:
    """Each figure as a share of the last; zeros where there is nothing to compare with."""
    values = np.asarray(figures, dtype=np.float64)
    return values / values[-1] if values[-1] > 0 else np.zeros_like(values)


def _panel(axes: Axes, mixer: Mapping[str, Any], *, lowest: float, first: bool) -> None:
    formula = _share(mixer["flops"])
    if formula.any():
        axes.plot(mixer["lengths"], formula, color=SOFT, linewidth=1.2, linestyle="--", label="formula (FLOPs)")
    for label, figures, colour, marker in (
        ("time", mixer["seconds"], PALETTE[0], "o"),
        ("memory", mixer["bytes"], PALETTE[1], "s"),
    ):
        axes.plot(mixer["lengths"], _share(figures), color=colour, marker=marker, markersize=3.5, label=label)
    axes.set(xscale="log", yscale="log", ylim=(lowest / 1.5, 1.6))
    axes.set_title(mixer["mixer"], fontsize=9)
    exponents = [f"time n^{mixer['time']['exponent']:.1f}", f"memory n^{mixer['memory']['exponent']:.1f}"]
    exponents += [f"formula n^{mixer['formula']['exponent']:.1f}"] if any(mixer["flops"]) else []
    axes.set_xlabel(f"length\n{', '.join(exponents)}", fontsize=8)
    axes.set_xticks(mixer["lengths"], [f"{length:,}" for length in mixer["lengths"]], fontsize=7, rotation=45)
    axes.xaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, place: f"{value:g}"))
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.tick_params(axis="y", labelsize=7)
    if first:
        axes.set_ylabel("share of the value at the longest", fontsize=8)
        axes.legend(fontsize=7, loc="lower right")
