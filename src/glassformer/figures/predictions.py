"""Predictions against the truth: accuracy against confidence, and predicted numbers. Takes the plain values evaluations store.

matplotlib is imported inside the functions, because every command imports all objectives, and it takes half a second.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def reliability_diagram(table: Sequence[Mapping[str, Any]], *, title: str = "") -> Figure:
    """Accuracy against confidence, one point for each bin with its interval; on the dashed line confidence can be believed."""
    from glassformer.figures import style

    with style.styled():
        figure, axes = style.new_axes(4.6, 4.0)
        axes.plot([0, 1], [0, 1], color=style.SOFT, linestyle="--", linewidth=1.0, label="confidence = accuracy")
        x = [row["confidence"] for row in table]
        y = [row["accuracy"]["value"] for row in table]
        low = [max(0.0, row["accuracy"]["value"] - row["accuracy"]["low"]) for row in table]
        high = [max(0.0, row["accuracy"]["high"] - row["accuracy"]["value"]) for row in table]
        axes.errorbar(x, y, yerr=[low, high], color=style.PALETTE[0], marker="o", capsize=3, linewidth=1.4, label="answers")
        for row in table:
            place = (row["confidence"], row["accuracy"]["value"])
            below = -10 if place[1] > 0.05 else 4  # not onto the numbers of the axis
            axes.annotate(f"{row['n']}", place, xytext=(4, below), textcoords="offset points", fontsize=7)
        axes.set(xlim=(0, 1.08), ylim=(0, 1.02), xlabel="confidence", ylabel="share right", title=title)
        axes.legend(loc="upper left")
        return figure


def true_and_predicted(points: Sequence[Sequence[float]]) -> Figure:
    """One dot for each text, and the dashed line on which a prediction is exact."""
    from glassformer.figures import style

    with style.styled():
        figure, axes = style.new_axes(4.6, 4.0)
        true, predicted = zip(*points)
        ends = [min(*true, *predicted), max(*true, *predicted)]
        axes.plot(ends, ends, color=style.SOFT, linestyle="--", linewidth=1.0, label="predicted = true")
        axes.scatter(true, predicted, s=12, alpha=0.5, color=style.PALETTE[0], label="texts")
        axes.set(xlabel="true", ylabel="predicted")
        axes.legend(loc="upper left")
        return figure
