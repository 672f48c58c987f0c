"""Counts of things by their size -> histograms, one row per group, with the median marked.

Sizes of documents range from one token to millions, so the classes grow by a factor unless all sizes are close. Takes
numbers only.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullFormatter

from glassformer.figures.style import INK, Drawing, line_look, styled

_CLASSES = 40
_CLOSE = 200  # the largest over the smallest; beyond that a plain axis shows one bar at the left


def histogram(groups: Mapping[str, np.ndarray], *, title: str = "", unit: str = "tokens per document") -> Figure:
    """One picture under another, on a shared axis. ``groups`` maps a name to whole numbers of at least one value."""
    if not groups or any(len(values) == 0 for values in groups.values()):
        raise ValueError("a histogram needs at least one value in each group")
    largest = max(float(values.max()) for values in groups.values())
    edges = class_edges(max(1.0, min(float(values.min()) for values in groups.values())), max(1.0, largest))
    with styled():
        figure = Drawing(figsize=(7.0, 1.2 + 1.5 * len(groups)), layout="constrained")
        rows = figure.subplots(len(groups), 1, sharex=True, squeeze=False)[:, 0]
        for number, (axes, (name, values)) in enumerate(zip(rows, groups.items())):
            counts, _ = np.histogram(np.maximum(values, 1), edges)
            axes.stairs(counts, edges, fill=True, color=line_look(number)["color"], alpha=0.85)
            middle = float(np.median(values))
            axes.axvline(max(middle, 1.0), color=INK, linewidth=1.0, linestyle="--")
            axes.set_title(f"{name}: {len(values):,} documents, median {middle:,.0f}", fontsize=9.5)
            axes.set_ylabel("documents")
            if is_spread(edges):
                axes.set_xscale("log")
                axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
                axes.xaxis.set_minor_formatter(NullFormatter())
        rows[-1].set_xlabel(unit)
        if title:
            figure.suptitle(title, x=0.01, ha="left", fontsize=11, fontweight="bold")
    return figure


def class_edges(low: float, high: float) -> np.ndarray:
    """Edges of the classes; every whole number from ``low`` to ``high`` lies between the first and the last.

    Sizes are whole numbers, and a class with two of them beside one with a single would look like a peak. So classes are
    equally wide where sizes are close, and otherwise grow by a factor large enough for rounding not to be seen.
    """
    if high / low < _CLOSE:
        step = max(1, int(np.ceil((high - low + 1) / _CLASSES)))
        return np.arange(np.floor(low) - 0.5, high + step, step)
    factor = next((factor for factor in (2**0.25, 2**0.5) if low * (factor - 1) >= 4), 2.0)
    count = int(np.floor(np.log(high / low) / np.log(factor) + 1e-9)) + 1
    return np.floor(low) * np.power(factor, np.arange(count + 1)).round(9).astype(np.float64) - 0.5


def is_spread(edges: np.ndarray) -> bool:
    """Whether the classes grow, so that the axis should, too."""
    return bool(np.ptp(np.diff(edges)) > 1e-6)
