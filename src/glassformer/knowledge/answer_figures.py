"""Pictures of answers: reliability, accuracy against coverage, confidence about known people and nobody, scores by AUC.

Takes the plain values that evaluations keep (lists and mappings); draws nothing that is not there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from glassformer.figures.style import PALETTE, SOFT, new_axes, styled

BINS = 20


def reliability_diagram(table: Sequence[Mapping[str, Any]], *, title: str = "") -> Figure:
    """Accuracy against confidence, one point for each bin with its interval; on the dashed line confidence can be believed."""
    with styled():
        figure, axes = new_axes(4.6, 4.0)
        axes.plot([0, 1], [0, 1], color=SOFT, linestyle="--", linewidth=1.0, label="confidence = accuracy")
        x = [row["confidence"] for row in table]
        y = [row["accuracy"]["value"] for row in table]
        low = [max(0.0, row["accuracy"]["value"] - row["accuracy"]["low"]) for row in table]
        high = [max(0.0, row["accuracy"]["high"] - row["accuracy"]["value"]) for row in table]
        axes.errorbar(x, y, yerr=[low, high], color=PALETTE[0], marker="o", capsize=3, linewidth=1.4, label="answers")
        for row in table:
            place = (row["confidence"], row["accuracy"]["value"])
            axes.annotate(f"{row['n']}", place, xytext=(4, -10), textcoords="offset points", fontsize=7)
        axes.set(xlim=(0, 1), ylim=(0, 1.02), xlabel="confidence", ylabel="share right", title=title)
        axes.legend(loc="upper left")
        return figure


def coverage_curve(curves: Mapping[str, Sequence[Mapping[str, float]]], *, title: str = "") -> Figure:
    """Accuracy of the surest answers against how many are given, a line for each model."""
    with styled():
        figure, axes = new_axes(5.6, 3.6)
        for number, (name, points) in enumerate(curves.items()):
            coverage, accuracy = ([point[key] for point in points] for key in ("coverage", "accuracy"))
            axes.plot(coverage, accuracy, color=PALETTE[number % len(PALETTE)], label=name)
        axes.set(xlim=(0, 1), ylim=(0, 1.02), xlabel="share of questions answered", ylabel="share right of them", title=title)
        if len(curves) > 1:
            axes.legend(loc="lower left")
        return figure


def confidence_of_groups(groups: Mapping[str, Sequence[float]], *, threshold: float | None = None, title: str = "") -> Figure:
    """How sure answers about each group of people are, as shares by bin of confidence."""
    with styled():
        figure, axes = new_axes(5.6, 3.2)
        edges = np.linspace(0, 1, BINS + 1)
        for number, (name, values) in enumerate(groups.items()):
            shares = np.histogram(np.asarray(values), bins=edges)[0] / max(1, len(values))
            axes.stairs(shares, edges, color=PALETTE[number % len(PALETTE)], label=f"{name} ({len(values):,})", linewidth=1.8)
        if threshold is not None:
            axes.axvline(threshold, color=SOFT, linestyle="--", linewidth=1.0, label="threshold")
        axes.set(xlim=(0, 1), xlabel="confidence", ylabel="share of the group", title=title)
        axes.legend()
        return figure


def score_bars(scores: Mapping[str, Mapping[str, Any]], *, title: str = "") -> Figure:
    """The AUC of each score with its interval; one half is guessing."""
    names = list(scores)
    with styled():
        figure, axes = new_axes(5.6, 0.5 * len(names) + 1.2)
        for at, name in enumerate(names):
            one = scores[name]
            low, high = (one["value"] if one[key] is None else one[key] for key in ("low", "high"))
            axes.plot([low, high], [at, at], color=PALETTE[0], linewidth=1.6)
            axes.plot(one["value"], at, marker="o", color=PALETTE[0])
        axes.axvline(0.5, color=SOFT, linestyle="--", linewidth=1.0)
        axes.set_yticks(range(len(names)), names)
        axes.invert_yaxis()
        axes.set(xlim=(min(0.45, axes.get_xlim()[0]), 1.02), xlabel="AUC: retrieved above made up", title=title)
        return figure
