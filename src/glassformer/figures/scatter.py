"""Predicted numbers against the true ones. Takes the plain values evaluations store."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure


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
