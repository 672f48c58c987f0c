"""Arrays -> the pictures of the explorations of attention by hand, one function each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from glassformer.figures.byhand_answers import empty_figure, pattern_map

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Array = NDArray[np.float64]
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7")  # Okabe and Ito
SMALLEST = 1e-16  # float64 shows no less beside numbers of size 1


def copying_figure(*, betas: Array, errors: Mapping[str, Array], promise: Array, weights: Array) -> Figure:
    """The error against beta with the promise above it, and all weights against beta."""
    figure, (left, right) = empty_figure(2, title="copying")
    for (name, error), colour in zip(errors.items(), COLOURS):
        left.semilogy(betas, np.maximum(error, SMALLEST), color=colour, label=name)
    left.semilogy(betas, np.maximum(promise, SMALLEST), color="black", linestyle=":", label="promise for q = beta k_1")
    left.set(xlabel="beta (length of the query)", ylabel="|output - v_1|", title="Error")
    left.legend(frameon=False, fontsize=8)
    right.plot(betas, weights[:, 1:], color="#bbbbbb", linewidth=1)
    right.plot(betas, weights[:, 0], color=COLOURS[0], label="key 1")
    right.plot([], [], color="#bbbbbb", label="the other keys")
    right.set(xlabel="beta", ylabel="weight", ylim=(0, 1.02), title="Weights for q = beta k_1")
    right.legend(frameon=False, fontsize=8, loc="center right")
    return figure


def averaging_figure(
    *,
    betas: Array,
    errors: Mapping[str, Array],
    sizes: Array,
    leaks_by_size: Mapping[str, Array],
    middle: float,
    lengths: Array,
    leaks_by_length: Mapping[str, Array],
) -> Figure:
    """Error against beta; unwanted weight against n; unwanted weight at equal length."""
    figure, (first, second, third) = empty_figure(3, title="averaging two of n", width=4.0)
    for (name, row), colour in zip(errors.items(), COLOURS):
        first.semilogy(betas, np.maximum(row, SMALLEST), color=colour, label=name)
    for (name, row), colour in zip(leaks_by_size.items(), COLOURS):
        second.semilogy(sizes, row, "o-", markersize=3.5, color=colour, label=name)
    for (name, row), colour in zip(leaks_by_length.items(), COLOURS):
        third.semilogy(lengths, np.maximum(row, SMALLEST), color=colour, label=name)
    first.set(xlabel="beta", ylabel="|output - (v_a + v_b)/2|", title="Error against beta")
    second.set(xlabel="n", ylabel="unwanted weight", title=f"Against n, beta = {middle:g}")
    third.set(xlabel="|q|", ylabel="unwanted weight", title="At equal length of q")
    for axis in (first, second, third):
        axis.legend(frameon=False, fontsize=8)
    return figure


def argmax_figure(
    *,
    gradients: Mapping[str, Mapping[str, float]],
    temperatures: Array,
    gradient_by_temperature: Array,
    distance_by_temperature: Array,
    losses: Mapping[str, Array],
) -> Figure:
    """Gradient lengths by kind; the temperature sweep; learning curves of the query."""
    figure, (bars, sweep, curves) = empty_figure(3, title="argmax attention", width=4.0)
    parts = list(next(iter(gradients.values())))
    for place, (name, lengths) in enumerate(gradients.items()):
        at = np.arange(len(parts)) + (place - 1) * 0.27
        bars.bar(at, [lengths[part] for part in parts], 0.27, color=COLOURS[place], label=name)
        for x, part in zip(at, parts):
            if lengths[part] == 0:
                bars.annotate("0", (x, 0), ha="center", va="bottom", color=COLOURS[place], fontsize=9)
    bars.set_xticks(range(len(parts)), parts)
    bars.set(ylabel="length of the gradient", title="Gradients")
    sweep.loglog(temperatures, np.maximum(gradient_by_temperature, SMALLEST), color=COLOURS[1], label="gradient by query")
    sweep.loglog(
        temperatures, np.maximum(distance_by_temperature, SMALLEST), color=COLOURS[3], label="|output - argmax output|"
    )
    sweep.set(xlabel="temperature", title="Softmax against temperature", ylim=(1e-12, None))
    for (name, row), colour in zip(losses.items(), COLOURS):
        curves.plot(row, color=colour, label=name)
    curves.set(xlabel="step", ylabel="loss", title="Gradient descent on the query", ylim=(0, None))
    for axis in (bars, sweep, curves):
        axis.legend(frameon=False, fontsize=8)
    return figure


def superposition_figure(*, angles: Array, errors: Mapping[str, Mapping[str, Array]], formula: Array) -> Figure:
    """The error of both extractors against the angle, without and with noise."""
    figure, axes = empty_figure(len(errors), title="taking one value out of an average")
    for axis, (title, rows) in zip(axes, errors.items()):
        axis.plot(angles, formula, color="black", linestyle=":", label="cosine of the angle")
        for (name, row), colour in zip(rows.items(), COLOURS[1::-1]):
            axis.plot(angles, row, "o-", markersize=3.5, color=colour, label=name)
        axis.set(xlabel="angle between the subspaces (degrees)", ylabel="mean |M c - v_a|", title=title, ylim=(0, None))
        axis.invert_xaxis()
        axis.legend(frameon=False, fontsize=8)
    return figure


def heads_figure(*, weights: Mapping[str, Array], sample: int) -> Figure:
    """The distribution of the weight on v_a in each case, and its first draws in a row."""
    figure, axes = empty_figure(len(weights), title="one head against two", width=4.0)
    edges = np.linspace(0, 1, 41)
    for axis, (name, row), colour in zip(axes, weights.items(), (COLOURS[2], COLOURS[1], COLOURS[0])):
        axis.hist(row, bins=edges, weights=np.full(len(row), 1 / len(row)), color=colour, alpha=0.85)
        inset = axis.inset_axes((0.12, 0.52, 0.82, 0.4))
        inset.plot(row[:sample], color=colour, linewidth=0.9, marker="o", markersize=2)
        inset.set(ylim=(-0.05, 1.05), xticks=[], yticks=[0, 0.5, 1])
        inset.set_title(f"the first {min(sample, len(row))} draws", fontsize=8)
        inset.tick_params(labelsize=7)
        axis.set(xlabel="weight on v_a", ylabel="share of draws", title=name, ylim=(0, 2.2 * axis.get_ylim()[1]))
        axis.title.set_fontsize(10)
    return figure


def outer_products_figure(
    *, patterns: Mapping[str, Array], betas: Array, distances: Mapping[str, Array], nearest: float, chosen: float
) -> Figure:
    """Both attention matrices and the distances against beta."""
    figure, axes = empty_figure(len(patterns) + 1, title=f"outer products, beta = {chosen:g}", width=4.2)
    for axis, (name, pattern) in zip(axes, patterns.items()):
        pattern_map(axis, pattern, name)
    curve = axes[-1]
    for (name, row), colour in zip(distances.items(), COLOURS):
        curve.plot(betas, row, color=colour, label=name)
    curve.axhline(nearest, color="black", linestyle=":", linewidth=1, label="nearest mixture of x to u_b")
    curve.set(xlabel="beta", ylabel="distance / beta", title="Distances")
    curve.set_ylim(0, 1.5 * max(float(row.max()) for row in distances.values()))  # room for the legend
    curve.legend(frameon=False, fontsize=7, loc="upper left")
    return figure
