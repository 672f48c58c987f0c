"""Curves, weights, patterns, keys in the plane -> the pictures of attention by hand's answers.

Arrays in, a matplotlib figure out. Computes nothing but what a picture needs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Array = NDArray[np.float64]

COLOURS = {  # Okabe and Ito: told apart with any kind of colour vision
    "goal": "#999999",
    "best query": "#0072b2",
    "after": "#0072b2",
    "least squares": "#d55e00",
    "before": "#d55e00",
}
SMALLEST = 1e-16  # below, a KL is drawn as if it were this: float64 shows no more
MANY_KEYS = 40  # bars beyond this become a line


def empty_figure(columns: int, *, title: str, width: float = 4.6, height: float = 3.8) -> tuple[Figure, list[Any]]:
    """A figure with panels side by side, not known to pyplot, so that nothing stays open."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width * columns, height), layout="constrained")
    figure.suptitle(title, fontsize=12)
    axes = [figure.add_subplot(1, columns, place + 1) for place in range(columns)]
    for axis in axes:
        axis.spines[["top", "right"]].set_visible(False)
    return figure, axes


def answer_figure(
    *,
    title: str,
    lengths: Array,
    best: Array,
    least_squares: Array,
    floor: float,
    weights: Mapping[str, Array],
    keys: Array | None,
    query: Array,
) -> Figure:
    """KL against |q|, the weights side by side, and the keys where they lie in a plane."""
    figure, axes = empty_figure(2 if keys is None else 3, title=title)
    curve = axes[0]
    curve.plot(lengths, np.maximum(best, SMALLEST), color=COLOURS["best query"], label="best query")
    curve.plot(
        lengths,
        np.maximum(least_squares, SMALLEST),
        color=COLOURS["least squares"],
        linestyle="--",  # where the two agree, both are seen
        label="least squares, rescaled",
    )
    if floor > SMALLEST:
        curve.axhline(floor, color="black", linestyle=":", linewidth=1, label="no query is below")
    curve.set(xlabel="|q|", ylabel="KL from goal to weights (nats)", title="How well, for which length")
    highest, lowest = float(best.max()), max(SMALLEST, float(best.min()))
    if highest > 20 * lowest:
        curve.set_yscale("log")
    else:
        curve.set_ylim(bottom=0)
    curve.legend(frameon=False, fontsize=8)
    weight_bars(axes[1], weights)
    if keys is not None:
        _plane(axes[2], keys, query, weights["best query"])
    return figure


def weight_bars(axis: Any, weights: Mapping[str, Array]) -> None:
    """One group of bars a key; a line where the keys are many."""
    n, width = len(next(iter(weights.values()))), 0.8 / len(weights)
    at = np.arange(1, n + 1)
    for place, (name, row) in enumerate(weights.items()):
        if n > MANY_KEYS:
            axis.plot(at, row, color=COLOURS[name], label=name)
        else:
            axis.bar(at + (place - (len(weights) - 1) / 2) * width, row, width, color=COLOURS[name], label=name)
    if n <= 20:
        axis.set_xticks(at)
    axis.set(xlabel="key", ylabel="weight", ylim=(0, 1.02), title="Weights")
    axis.legend(frameon=False, fontsize=8)


def _plane(axis: Any, keys: Array, query: Array, weights: Array) -> None:
    """Keys as points as large as their weight, and the direction of the query."""
    axis.axhline(0, color="#dddddd", linewidth=0.8, zorder=0)
    axis.axvline(0, color="#dddddd", linewidth=0.8, zorder=0)
    axis.scatter(keys[:, 0], keys[:, 1], s=30 + 300 * weights, color=COLOURS["best query"], alpha=0.6, linewidth=0)
    for number, key in enumerate(keys, start=1):
        axis.annotate(str(number), key, textcoords="offset points", xytext=(6, 6), fontsize=9)
    length = float(np.linalg.norm(query))
    if length > 0:
        tip = query / length * float(np.linalg.norm(keys, axis=1).max() or 1.0)
        axis.annotate("", tip, (0, 0), arrowprops={"arrowstyle": "->", "color": "black"})
        axis.annotate("q", tip, textcoords="offset points", xytext=(4, -10), fontsize=10, style="italic")
        axis.update_datalim([tip])
    axis.margins(0.15)
    axis.set_aspect("equal", adjustable="datalim")
    axis.autoscale_view()
    axis.set(title="Keys (size: weight) and the query's direction")


def pattern_figure(*, title: str, patterns: Mapping[str, Array]) -> Figure:
    """Attention matrices side by side: rows are queries, columns are keys."""
    figure, axes = empty_figure(len(patterns), title=title)
    for axis, (name, pattern) in zip(axes, patterns.items()):
        image = pattern_map(axis, pattern, name)
    figure.colorbar(image, ax=axes, label="weight", shrink=0.8)
    return figure


def pattern_map(axis: Any, pattern: Array, title: str) -> Any:
    """One attention matrix with its numbers, where they can be read."""
    image = axis.imshow(pattern, vmin=0, vmax=1, cmap="Blues")
    rows, columns = pattern.shape
    if max(rows, columns) <= 8:
        for i, j in np.ndindex(rows, columns):
            axis.text(
                j,
                i,
                f"{pattern[i, j]:.2f}",
                ha="center",
                va="center",
                color="white" if pattern[i, j] > 0.6 else "black",
                fontsize=9,
            )
    if max(rows, columns) <= 20:
        axis.set_xticks(range(columns), [str(j + 1) for j in range(columns)])
        axis.set_yticks(range(rows), [str(i + 1) for i in range(rows)])
    axis.spines[:].set_visible(False)
    axis.set(xlabel="key", ylabel="query", title=title)
    return image


def replacement_figure(
    *,
    title: str,
    weights: Mapping[str, Array],
    scores: Array,
    kls: Array,
    marks: Mapping[str, float],
    allowed: tuple[float, float] | None,
) -> Figure:
    """The KL against the new key's score, with what its length allows; and the weights before and after."""
    figure, (curve, bars) = empty_figure(2, title=title)
    curve.plot(scores, np.maximum(kls, SMALLEST), color="black")
    if allowed is not None:
        curve.axvspan(*allowed, color="#0072b2", alpha=0.08, label="scores this length allows")
    for (name, score), colour in zip(marks.items(), ("#d55e00", "#0072b2")):
        curve.axvline(score, color=colour, linestyle="--", linewidth=1.2, label=name)
    curve.set(xlabel="score of the key", ylabel="KL from goal to weights (nats)", title="One number decides")
    curve.legend(frameon=False, fontsize=8)
    weight_bars(bars, weights)
    return figure
