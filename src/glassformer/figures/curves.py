"""Arrays -> learning curves, loss by position, and bars of cost by part.

A curve may hold several runs of one setting: then their mean is drawn, with a band from the lowest to the highest.
Takes numbers only; knows nothing of runs.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from glassformer.figures.style import INK, PALETTE, SOFT, legend_below, line_look, log_axis, new_axes, styled

NATS = "loss (nats per token)"

# A learning curve is about 700 pixels wide: more points than this cannot be seen and only make the page large.
MAX_POINTS = 1000


@dataclass(frozen=True)
class Points:
    """Values at steps: ``values`` is [N] for one run, or [R, N] for R runs at the same steps."""

    steps: np.ndarray
    values: np.ndarray

    @classmethod
    def of(cls, steps: Sequence[float], values: Sequence[float] | Sequence[Sequence[float]]) -> Points:
        return cls(np.asarray(steps, dtype=np.float64), np.asarray(values, dtype=np.float64))

    @classmethod
    def from_records(cls, records: Iterable[Mapping[str, Any]], key: str) -> Points | None:
        """The values of a key by step; None where no record has it."""
        found = [(record["step"], record[key]) for record in records if key in record]
        return cls.of(*zip(*found)) if found else None

    def __post_init__(self) -> None:
        if self.steps.ndim != 1 or self.values.shape[-1:] != self.steps.shape or self.values.ndim not in (1, 2):
            raise ValueError(f"values of shape {self.values.shape} do not belong to steps of shape {self.steps.shape}")

    @property
    def runs(self) -> np.ndarray:
        """[R, N], also for one run; a gap (NaN) where a value is not a finite number."""
        runs = np.atleast_2d(self.values)
        return np.where(np.isfinite(runs), runs, np.nan)


@dataclass(frozen=True)
class Curve:
    """One setting: what it is called, its training loss and its validation loss (either may be missing)."""

    label: str
    train: Points | None = None
    validation: Points | None = None
    measured: bool = False
    """``train`` was measured at the evaluations, as validation was, not at every step."""

    def mapped(self, change: Callable[[Points], Points]) -> Curve:
        """The same with other points."""
        train, validation = (None if one is None else change(one) for one in (self.train, self.validation))
        return Curve(self.label, train, validation, self.measured)

    def scaled(self, factor: float) -> Curve:
        """The same with steps counted in another unit."""
        return self.mapped(lambda one: Points(one.steps * factor, one.values))


def learning_curves(
    curves: Sequence[Curve],
    *,
    baselines: Mapping[str, float] | None = None,
    title: str = "",
    unit: str = NATS,
    log: bool = False,
    steps_per_epoch: float | None = None,
) -> Figure:
    """Training loss as lines, validation loss as lines with markers; ``baselines`` are named level lines.

    ``unit``: what the values are. ``log``: a logarithmic axis of values, for perplexity. ``steps_per_epoch``: the axis counts
    epochs instead of steps.
    """
    with styled():
        figure, axes = new_axes()
        if steps_per_epoch:
            curves = [curve.scaled(1 / steps_per_epoch) for curve in curves]
        _draw_curves(axes, curves, by="epoch" if steps_per_epoch else "step", unit=unit)
        _levels(axes, baselines or {}, list(_all_values(curves)), log=log)
        if log:
            log_axis(axes.yaxis)
        axes.set(title=title)
        legend_below(figure, axes)
        return figure


def curve_panels(panels: Mapping[str, Sequence[Curve]], *, by: str = "step", log: Collection[str] = ()) -> Figure:
    """Several metrics of the same runs side by side, with one legend. ``panels``: unit -> curves. ``log``: units whose axis is
    logarithmic."""
    with styled():
        figure = Figure(figsize=(4.2 * len(panels), 3.6), layout="constrained")
        places = figure.subplots(1, len(panels), squeeze=False)[0]
        for axes, (unit, curves) in zip(places, panels.items()):
            _draw_curves(axes, curves, by=by, unit=unit)
            if unit in log:
                log_axis(axes.yaxis)
        legend_below(figure, places[0])
        return figure


def _draw_curves(axes: Axes, curves: Sequence[Curve], *, by: str, unit: str) -> None:
    alone = len(curves) == 1  # then two colours tell train from validation, and the label says nothing
    for index, curve in enumerate(curves):
        label, look = "" if alone else curve.label, line_look(index)
        if curve.train is not None and curve.train.steps.size:
            if curve.measured:
                _validation(axes, curve.train, label, look if alone else look | {"linestyle": ":"}, "train")
            else:
                _training(axes, curve.train, label, look, "train")
        if curve.validation is not None and curve.validation.steps.size:
            _validation(axes, curve.validation, label, line_look(1) if alone else look, "validation")
    axes.set(xlabel=by, ylabel=unit)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=8))


def loss_by_position(means: Mapping[str, np.ndarray], errors: Mapping[str, np.ndarray] | None = None) -> Figure:
    """Mean loss at each position of the window, one line per name, with a band of two standard errors."""
    with styled():
        figure, axes = new_axes()
        for index, (name, mean_T) in enumerate(means.items()):
            position_T, look = np.arange(1, len(mean_T) + 1), line_look(index)
            axes.plot(position_T, mean_T, label=name, marker="o" if len(mean_T) == 1 else None, **look)
            if errors is not None and name in errors:
                half_T = 2.0 * np.asarray(errors[name])
                axes.fill_between(position_T, mean_T - half_T, mean_T + half_T, color=look["color"], alpha=0.18, linewidth=0)
        axes.set(xlabel="position in the window (tokens the model has seen)", ylabel=NATS)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=8))
        if len(means) > 1:
            legend_below(figure, axes)
        return figure


def cost_by_part(parts: Mapping[str, float], *, unit: str) -> Figure:
    """Level bars, in the order given, each with its amount and its share of the sum."""
    names, amounts = list(parts), np.array(list(parts.values()), dtype=np.float64)
    total = amounts.sum() or 1.0
    with styled():
        figure, axes = new_axes(height=max(1.3, 0.7 + 0.34 * len(names)))
        bars = axes.barh(names, amounts, color=PALETTE[0], height=0.65)
        labels = [f"{short_number(amount)}  ({_share(amount / total)})" for amount in amounts]
        axes.bar_label(bars, labels=labels, padding=4, color=INK, fontsize=9)
        axes.invert_yaxis()
        axes.margins(x=0.22)  # room for the labels
        axes.set(xlabel=unit)
        axes.grid(visible=False, axis="y")
        axes.xaxis.set_major_formatter(lambda value, _: short_number(value))
        return figure


def short_number(value: float) -> str:
    """1234567 -> "1.23M": three significant digits and a letter."""
    for size, letter in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size * 0.9995:  # 999,960 rounds to 1.00M, not to 1000k
            return f"{value / size:.3g}{letter}"
    return f"{value:.3g}"


def _share(share: float) -> str:
    return "<1%" if 0 < share < 0.005 else f"{share:.0%}"


def smoothed(values: np.ndarray, width: int) -> np.ndarray:
    """The mean over ``width`` values around each, fewer at the ends; what is not a number is left out of the means."""
    finite = np.isfinite(values)
    kernel = np.ones(min(width, len(values)))
    sums = np.convolve(np.where(finite, values, 0.0), kernel, mode="same")
    counts = np.convolve(finite.astype(float), kernel, mode="same")
    result = np.full(len(values), np.nan)
    np.divide(sums, counts, out=result, where=counts > 0.5)
    return result


def _training(axes: Axes, points: Points, label: str, look: dict[str, Any], what: str) -> None:
    steps, runs = thinned(points)
    smooth = np.stack([smoothed(run, max(1, len(steps) // 50)) for run in runs])
    if len(runs) > 1:
        _band(axes, steps, smooth, look["color"], alpha=0.12)
    else:
        axes.plot(steps, runs[0], color=look["color"], alpha=0.25, linewidth=0.8)
    axes.plot(steps, smooth.mean(axis=0), label=_named(label, what, len(runs)), linewidth=1.3, alpha=0.85, **look)


def _validation(axes: Axes, points: Points, label: str, look: dict[str, Any], what: str) -> None:
    steps, runs = points.steps, points.runs
    if len(runs) > 1:
        _band(axes, steps, runs, look["color"], alpha=0.2)
    name = _named(label, what, len(runs))
    axes.plot(steps, runs.mean(axis=0), label=name, marker="o", markersize=4, **look)


def _named(label: str, what: str, runs: int) -> str:
    name = f"{label}, {what}" if label else what
    return f"{name} (mean of {runs})" if runs > 1 else name


def _band(axes: Axes, steps: np.ndarray, runs: np.ndarray, color: str, alpha: float) -> None:
    axes.fill_between(steps, runs.min(axis=0), runs.max(axis=0), color=color, alpha=alpha, linewidth=0)


def _levels(axes: Axes, baselines: Mapping[str, float], values: list[float], *, log: bool) -> None:
    """Level lines named to the right of the picture; one far above every curve would squeeze the curves and is left out."""
    top, bottom = max(values, default=np.inf), min(values, default=0.0)
    levels = {name: level for name, level in baselines.items() if level <= top * 1.15}
    for level in levels.values():
        axes.axhline(level, color=SOFT, linewidth=1.0, linestyle=(0, (4, 3)))
    heights = {name: float(np.log(level)) for name, level in levels.items()} if log else levels
    span = float(np.log(top / bottom)) if log and bottom > 0 else top - bottom
    for names in close_levels(heights, apart=0.06 * span):
        text = "\n".join(f"{name} {levels[name]:.2f}" for name in reversed(names))
        place: dict[str, Any] = {"xycoords": ("axes fraction", "data"), "ha": "left", "va": "center"}
        axes.annotate(text, (1.01, _middle(levels, names)), fontsize=8.5, color=SOFT, **place)


def _middle(levels: Mapping[str, float], names: Sequence[str]) -> float:
    return float(np.median([levels[name] for name in names]))


def close_levels(levels: Mapping[str, float], apart: float) -> list[list[str]]:
    """Names from low to high, those too near for labels of their own together. ``apart``: the height of a line of text."""
    groups: list[list[str]] = []
    for name in sorted(levels, key=lambda name: levels[name]):
        if groups and levels[name] - _middle(levels, groups[-1]) < apart * (len(groups[-1]) + 1) / 2:
            groups[-1].append(name)
        else:
            groups.append([name])
    return groups


def _all_values(curves: Sequence[Curve]) -> list[float]:
    arrays = [points.values for curve in curves for points in (curve.train, curve.validation) if points is not None]
    return [float(value) for array in arrays for value in np.ravel(array) if np.isfinite(value)]


def thinned(points: Points) -> tuple[np.ndarray, np.ndarray]:
    """At most ``MAX_POINTS`` steps; each stands for the mean of the steps it replaces."""
    steps, runs = points.steps, points.runs
    group = -(-len(steps) // MAX_POINTS)
    if group <= 1:
        return steps, runs
    edges = np.arange(0, len(steps), group)
    sizes = np.diff(np.append(edges, len(steps)))
    return np.add.reduceat(steps, edges) / sizes, np.add.reduceat(runs, edges, axis=1) / sizes
