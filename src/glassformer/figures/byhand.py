"""Curves, weights, patterns, keys in the plane -> the pictures of attention by hand: answers, then one per exploration.

Arrays in, a matplotlib figure out. The picture of an exploration takes its ``numbers`` (byhand/explorations), by their names.
Computes nothing but what a picture needs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from glassformer.figures.style import PALETTE, Drawing, log_axis

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Array = NDArray[np.float64]
Numbers = Mapping[str, Any]

COLOURS = {
    "goal": "#999999",
    "best query": PALETTE[0],
    "after": PALETTE[0],
    "least squares": PALETTE[1],
    "before": PALETTE[1],
}
SMALLEST = 1e-16  # below, a KL is drawn as if it were this: float64 shows no more
MANY_KEYS = 40  # bars beyond this become a line
SAMPLE = 40  # draws shown one by one


def empty_figure(columns: int, *, title: str, width: float = 4.6) -> tuple[Figure, list[Any]]:
    """A figure with panels side by side, not known to pyplot, so that nothing stays open."""
    figure = Drawing(figsize=(width * columns, 3.8), layout="constrained")
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
        log_axis(curve.yaxis)
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
        curve.axvspan(*allowed, color=PALETTE[0], alpha=0.08, label="scores this length allows")
    for (name, score), colour in zip(marks.items(), PALETTE[1::-1]):
        curve.axvline(score, color=colour, linestyle="--", linewidth=1.2, label=name)
    curve.set(xlabel="score of the key", ylabel="KL from goal to weights (nats)", title="One number decides")
    curve.legend(frameon=False, fontsize=8)
    weight_bars(bars, weights)
    return figure


def curves(axis: Any, x: Array, rows: Mapping[str, Any], **look: Any) -> None:
    """A line for each row of the table, named, in the colours of the palette; what is 0 is drawn as ``SMALLEST``."""
    for (name, row), colour in zip(rows.items(), PALETTE):
        axis.plot(x, np.maximum(row, SMALLEST), color=colour, label=name, **look)


def copying_figure(numbers: Numbers) -> Figure:
    """The error against beta with the promise above it, and all weights against beta."""
    betas, weights = numbers["beta"], numbers["weights"]
    figure, (left, right) = empty_figure(2, title="copying")
    curves(left, betas, {"q = beta k_1": numbers["error"], "widest lead": numbers["error_widest_lead"]})
    promise = np.maximum(numbers["promised_error"], SMALLEST)
    left.plot(betas, promise, color="black", linestyle=":", label="promise for q = beta k_1")
    log_axis(left.yaxis)
    left.set(xlabel="beta (length of the query)", ylabel="|output - v_1|", title="Error")
    left.legend(frameon=False, fontsize=8)
    right.plot(betas, weights[:, 1:], color="#bbbbbb", linewidth=1)
    right.plot(betas, weights[:, 0], color=PALETTE[0], label="key 1")
    right.plot([], [], color="#bbbbbb", label="the other keys")
    right.set(xlabel="beta", ylabel="weight", ylim=(0, 1.02), title="Weights for q = beta k_1")
    right.legend(frameon=False, fontsize=8, loc="center right")
    return figure


def scaling_figure(numbers: Numbers) -> Figure:
    """The variance of scores against the width, with the formula, and the largest weight of softmax."""
    figure, (left, right) = empty_figure(2, title="scaling")
    curves(left, numbers["d"], numbers["variance"], marker="o", markersize=3)
    curves(right, numbers["d"], numbers["largest_weight"], marker="o", markersize=3)
    left.plot(
        numbers["d"], numbers["formula"], color="black", linestyle=":", label="formula: d times the variance of a product"
    )
    for axes in (left, right):
        log_axis(axes.xaxis)
        axes.set(xlabel="d (numbers in a query)")
        axes.legend(frameon=False, fontsize=8)
    log_axis(left.yaxis)
    left.set(ylabel="variance of the scores", title="Variance")
    right.set(ylabel="largest weight, mean", ylim=(0, 1.02), title="Softmax")
    return figure


def averaging_figure(numbers: Numbers) -> Figure:
    """Error against beta; unwanted weight against n; unwanted weight at equal length."""
    figure, (first, second, third) = empty_figure(3, title="averaging two of n", width=4.0)
    curves(first, numbers["beta"], numbers["error"])
    curves(second, numbers["n"], numbers["leak_by_n"], marker="o", linestyle="-", markersize=3.5)
    curves(third, numbers["length"], numbers["leak_by_length"])
    first.set(xlabel="beta", ylabel="|output - (v_a + v_b)/2|", title="Error against beta")
    second.set(xlabel="n", ylabel="unwanted weight", title=f"Against n, beta = {numbers['leak_by_n_at_beta']:g}")
    third.set(xlabel="|q|", ylabel="unwanted weight", title="At equal length of q")
    for axes in (first, second, third):
        log_axis(axes.yaxis)
        axes.legend(frameon=False, fontsize=8)
    return figure


def argmax_figure(numbers: Numbers) -> Figure:
    """Gradient lengths by kind; the temperature sweep; learning curves of the query."""
    gradients = numbers["gradients"]
    figure, (bars, sweep, descent) = empty_figure(3, title="argmax attention", width=4.0)
    parts = list(next(iter(gradients.values())))
    for place, (name, lengths) in enumerate(gradients.items()):
        at = np.arange(len(parts)) + (place - 1) * 0.27
        bars.bar(at, [lengths[part] for part in parts], 0.27, color=PALETTE[place], label=name)
        for x, part in zip(at, parts):
            if lengths[part] == 0:
                bars.annotate("0", (x, 0), ha="center", va="bottom", color=PALETTE[place], fontsize=9)
    bars.set_xticks(range(len(parts)), parts)
    bars.set(ylabel="length of the gradient", title="Gradients")
    for name, key, colour in (
        ("gradient by query", "query_gradient_by_temperature", PALETTE[1]),
        ("|output - argmax output|", "distance_to_argmax_by_temperature", PALETTE[3]),
    ):
        sweep.plot(numbers["temperature"], np.maximum(numbers[key], SMALLEST), color=colour, label=name)
    log_axis(sweep.xaxis)
    log_axis(sweep.yaxis)
    sweep.set(xlabel="temperature", title="Softmax against temperature", ylim=(1e-12, None))
    for (name, row), colour in zip(numbers["losses"].items(), PALETTE):
        descent.plot(row, color=colour, label=name)
    descent.set(xlabel="step", ylabel="loss", title="Gradient descent on the query", ylim=(0, None))
    for axis in (bars, sweep, descent):
        axis.legend(frameon=False, fontsize=8)
    return figure


def superposition_figure(numbers: Numbers) -> Figure:
    """The error of both extractors against the angle, without and with noise."""
    panels = {"without noise": numbers["error"], f"with noise {numbers['noise']}": numbers["error_with_noise"]}
    figure, axes = empty_figure(len(panels), title="taking one value out of an average")
    for axis, (title, rows) in zip(axes, panels.items()):
        axis.plot(numbers["angle"], numbers["formula"], color="black", linestyle=":", label="cosine of the angle")
        for (name, row), colour in zip(rows.items(), PALETTE[1::-1]):
            axis.plot(numbers["angle"], row, "o-", markersize=3.5, color=colour, label=name)
        axis.set(xlabel="angle between the subspaces (degrees)", ylabel="mean |M c - v_a|", title=title, ylim=(0, None))
        axis.invert_xaxis()
        axis.legend(frameon=False, fontsize=8)
    return figure


def heads_figure(numbers: Numbers) -> Figure:
    """The distribution of the weight on v_a in each case, and its first draws in a row."""
    weights = numbers["weights"]
    figure, axes = empty_figure(len(weights), title="one head against two", width=4.0)
    edges = np.linspace(0, 1, 41)
    for axis, (name, row), colour in zip(axes, weights.items(), (PALETTE[2], PALETTE[1], PALETTE[0])):
        axis.hist(row, bins=edges, weights=np.full(len(row), 1 / len(row)), color=colour, alpha=0.85)
        inset = axis.inset_axes((0.12, 0.52, 0.82, 0.4))
        inset.plot(row[:SAMPLE], color=colour, linewidth=0.9, marker="o", markersize=2)
        inset.set(ylim=(-0.05, 1.05), xticks=[], yticks=[0, 0.5, 1])
        inset.set_title(f"the first {min(SAMPLE, len(row))} draws", fontsize=8)
        inset.tick_params(labelsize=7)
        axis.set(xlabel="weight on v_a", ylabel="share of draws", title=name, ylim=(0, 2.2 * axis.get_ylim()[1]))
        axis.title.set_fontsize(10)
    return figure


def outer_products_figure(numbers: Numbers) -> Figure:
    """Both attention matrices and the distances against beta."""
    patterns = {"x as key, query, value": "pattern_without", "with Q, K, V": "pattern_with"}
    figure, axes = empty_figure(len(patterns) + 1, title=f"outer products, beta = {numbers['chosen']:g}", width=4.2)
    for axis, (name, key) in zip(axes, patterns.items()):
        pattern_map(axis, np.asarray(numbers[key]), name)
    curve, distances = axes[-1], numbers["distances_by_beta"]
    curves(curve, numbers["beta"], distances)
    nearest = numbers["nearest_mixture_to_u_b"]
    curve.axhline(nearest, color="black", linestyle=":", linewidth=1, label="nearest mixture of x to u_b")
    curve.set(xlabel="beta", ylabel="distance / beta", title="Distances")
    curve.set_ylim(0, 1.5 * max(map(max, distances.values())))  # room for the legend
    curve.legend(frameon=False, fontsize=7, loc="upper left")
    return figure
