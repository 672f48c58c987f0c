"""Attention patterns, head scores, effects and lens tables -> figures for papers, and the scale of colours that pages share.

Takes arrays and labels; knows no network.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap, Normalize
from matplotlib.figure import Figure

from glassformer.figures.save import printable
from glassformer.figures.style import GRID, PALETTE, SOFT, Drawing, new_axes, styled
from glassformer.foundation.estimate import Estimate

# From nothing to all: lightness falls (on a dark page, rises) all the way, and hue only goes between yellow and blue, which
# people with any of the common colour-vision deficiencies can tell apart.
ON_LIGHT = ("#fdfbf3", "#f3e3a3", "#c9bd8d", "#8d93a0", "#4a6aa5", "#0c2a66")
ON_DARK = ("#0e1526", "#1d3a6e", "#4c6296", "#8f8f8f", "#cdb765", "#ffe27a")
MOST_LABELS = 40


def scale(dark: bool = False) -> LinearSegmentedColormap:
    """Colours of weights from 0 to 1."""
    return LinearSegmentedColormap.from_list("weights", list(ON_DARK if dark else ON_LIGHT))


def draw_map(
    weights_TS: np.ndarray, queries: Sequence[str], keys: Sequence[str], *, title: str = "", padding: int = 0
) -> Figure:
    """One head: queries down, keys across, the colour by the root of the weight so that small ones are seen.

    ``padding``: of the last so many tokens, which are greyed; as keys they have no weight.
    """
    rows, columns = weights_TS.shape
    size = min(9.0, max(3.4, 0.22 * max(rows, columns) + 1.6))
    with styled():
        figure, axes = new_axes(size + 0.6, size * rows / max(rows, columns) * 0.9 + 0.9)
        image = _image(axes, weights_TS, padding)
        _label(axes, queries, keys)
        axes.set(xlabel="key: is read", ylabel="query: reads", title=title)
        bar = figure.colorbar(image, ax=axes, fraction=0.04, pad=0.02, ticks=np.sqrt([0, 0.01, 0.1, 0.25, 0.5, 1.0]))
        bar.ax.set_yticklabels(["0", ".01", ".1", ".25", ".5", "1"])
        bar.set_label("weight")
        return figure


def draw_grid(weights_LHTS: np.ndarray, *, layers: Sequence[int], title: str = "", padding: int = 0) -> Figure:
    """All heads as small maps: layers down, heads across."""
    count, heads = weights_LHTS.shape[:2]
    side = min(1.9, 14.0 / max(heads, 1))
    with styled():
        figure = Drawing(figsize=(side * heads + 0.7, side * count + 0.6), layout="constrained")
        axes = figure.subplots(count, heads, squeeze=False)
        for row, layer in enumerate(layers):
            for head in range(heads):
                one = axes[row][head]
                _image(one, weights_LHTS[row, head], padding)
                one.set(xticks=[], yticks=[])
                if row == 0:
                    one.set_title(f"head {head}", fontsize=8, loc="center", fontweight="normal")
                if head == 0:
                    one.set_ylabel(f"layer {layer}", fontsize=8)
        if title:
            figure.suptitle(printable(title), fontsize=10)
        return figure


def draw_effects(effects: Mapping[str, Estimate], *, unit: str) -> Figure:
    """What taking out each head does, with its interval, the largest first."""
    order = sorted(effects, key=lambda name: -(effects[name].value or 0.0))
    with styled():
        figure, axes = new_axes(5.6, 0.26 * len(order) + 1.2)
        for at, name in enumerate(order):
            one = effects[name]
            value = 0.0 if one.value is None else one.value
            low, high = (value if end is None else end for end in (one.low, one.high))
            axes.plot([low, high], [at, at], color=PALETTE[0], linewidth=1.6)
            axes.plot(value, at, marker="o", markersize=4, color=PALETTE[0])
        axes.axvline(0.0, color=SOFT, linestyle="--", linewidth=1.0)
        axes.set_yticks(range(len(order)), order, fontsize=8)
        axes.invert_yaxis()
        axes.set(xlabel=unit)
        return figure


def draw_patching(found_LT: np.ndarray, tokens: Sequence[str], layers: Sequence[str]) -> Figure:
    """What of another text comes back when its residual stream is put in, by layer (upwards) and position: 0 nothing, 1 all."""
    count, positions = found_LT.shape
    with styled():
        figure, axes = new_axes(max(4.0, 0.34 * positions + 1.6), 0.3 * count + 1.5)
        shown = np.clip(found_LT, 0, 1)
        image = axes.imshow(shown, cmap=scale(), norm=Normalize(0, 1), aspect="auto", origin="lower")
        every = -(-positions // MOST_LABELS)
        at = list(range(0, positions, every))
        axes.set_xticks(at, [_short(tokens[position]) for position in at], fontsize=7, rotation=90)
        axes.set_yticks(range(count), layers, fontsize=7)
        axes.grid(False)
        axes.set(xlabel="put in at this position", ylabel="after")
        figure.colorbar(image, ax=axes, fraction=0.04, pad=0.02).set_label("comes back")
        return figure


def _image(axes: Axes, weights_TS: np.ndarray, padding: int = 0):  # type: ignore[no-untyped-def]
    axes.grid(False)
    for side in ("top", "right"):
        axes.spines[side].set_visible(True)
    for spine in axes.spines.values():
        spine.set_color(GRID)
    if padding:  # whole rows and columns, under what a padded query reads, which nobody uses
        rows, columns = weights_TS.shape
        grey: dict[str, Any] = {"color": SOFT, "alpha": 0.35, "linewidth": 0, "zorder": 3}
        axes.axvspan(columns - padding - 0.5, columns - 0.5, **grey)
        axes.axhspan(rows - padding - 0.5, rows - 0.5, xmax=1 - padding / columns, **grey)
    root = np.sqrt(np.clip(weights_TS, 0, 1))
    return axes.imshow(root, cmap=scale(), norm=Normalize(0, 1), interpolation="nearest", aspect="auto")


def _label(axes: Axes, queries: Sequence[str], keys: Sequence[str]) -> None:
    """Tokens on both axes; where there are too many, every so many of them, with their position."""
    for names, place in ((keys, axes.set_xticks), (queries, axes.set_yticks)):
        every = -(-len(names) // MOST_LABELS)
        at = list(range(0, len(names), every))
        place(
            at,
            [_short(names[position]) if every == 1 else f"{position} {_short(names[position])}" for position in at],
            fontsize=7,
        )
    axes.tick_params(axis="x", rotation=90, length=2)
    axes.tick_params(axis="y", length=2)


def _short(token: str) -> str:
    shown = printable(token).replace("\n", "↵").replace("\t", "⇥")
    shown = shown if shown.strip() else "␣" * max(1, len(shown))
    return shown if len(shown) <= 12 else f"{shown[:11]}…"
