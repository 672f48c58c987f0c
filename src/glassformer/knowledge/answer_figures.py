"""Figures of answers: reliability, accuracy against coverage, confidence about known people and nobody, scores by AUC.

Takes the plain values that evaluations store (lists and mappings). matplotlib is imported inside the functions, because every
command imports all objectives and with them this package, and it takes half a second.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from glassformer.figures.predictions import reliability_diagram

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BINS = 20


def answer_pictures(details: Mapping[str, Any]) -> list[tuple[Any, str]]:
    """Figures with captions from the details of an evaluation, for whatever it has."""
    found: list[tuple[Any, str]] = []
    calibration, nowhere = details.get("calibration"), details.get("nowhere") or {}
    if calibration:
        caption = "Reliability: the share of right answers against their confidence; numbers are how many answers."
        temperature = calibration.get("temperature")
        if temperature:
            caption += (
                f" A temperature of {temperature['value']:.2f}, fitted on one half of the people, takes the ECE of the other "
                f"half from {temperature['ece_before']:.3f} to {temperature['ece_after']:.3f}."
            )
        found.append((reliability_diagram(calibration["reliability"]), caption))
    if details.get("coverage"):
        caption = "Accuracy against coverage: the share of right answers when only the surest are given."
        found.append((coverage_figure(details["coverage"]), caption))
    known = [row["confidence"] for row in details.get("answers", []) if "confidence" in row]
    nobody = [row["confidence"] for row in nowhere.get("answers", []) if "confidence" in row]
    if known and nobody:
        threshold = (nowhere.get("abstention") or {}).get("threshold")
        caption = "Confidence of answers about people of the text and about people who are nowhere."
        if threshold is not None:
            caption += " At the threshold 90 % of the known (one half of them) are still answered."
        groups = {"in the text": known, "nowhere": nobody}
        found.append((confidence_of_groups(groups, threshold=threshold), caption))
    if nowhere.get("retrieved"):
        caption = "How well each score of the model tells retrieved answers from made-up ones, on people it was not fitted on."
        found.append((score_bars(nowhere["retrieved"]["auc"]), caption))
    return found


def coverage_figure(points: Sequence[Mapping[str, float]]) -> Figure:
    """Accuracy of the surest answers against how many are given."""
    from glassformer.figures import style

    with style.styled():
        figure, axes = style.new_axes(5.6, 3.6)
        axes.plot([point["coverage"] for point in points], [point["accuracy"] for point in points], color=style.PALETTE[0])
        axes.set(xlim=(0, 1), ylim=(0, 1.02), xlabel="share of questions answered", ylabel="share right of them")
        return figure


def confidence_of_groups(groups: Mapping[str, Sequence[float]], *, threshold: float | None = None) -> Figure:
    """How sure answers about each group of people are, as shares by bin of confidence."""
    from glassformer.figures import style

    with style.styled():
        figure, axes = style.new_axes(5.6, 3.2)
        edges = np.linspace(0, 1, BINS + 1)
        for number, (name, values) in enumerate(groups.items()):
            shares = np.histogram(np.asarray(values), bins=edges)[0] / max(1, len(values))
            axes.stairs(
                shares,
                edges,
                color=style.PALETTE[number % len(style.PALETTE)],
                label=f"{name} ({len(values):,})",
                linewidth=1.8,
            )
        if threshold is not None:
            axes.axvline(threshold, color=style.SOFT, linestyle="--", linewidth=1.0, label="threshold")
        axes.set(xlim=(0, 1), xlabel="confidence", ylabel="share of the group")
        axes.legend()
        return figure


def score_bars(scores: Mapping[str, Mapping[str, Any]]) -> Figure:
    """The AUC of each score with its interval; one half is guessing."""
    from glassformer.figures import style

    names = list(scores)
    with style.styled():
        figure, axes = style.new_axes(5.6, 0.5 * len(names) + 1.2)
        for at, name in enumerate(names):
            one = scores[name]
            low, high = (one["value"] if one[key] is None else one[key] for key in ("low", "high"))
            axes.plot([low, high], [at, at], color=style.PALETTE[0], linewidth=1.6)
            axes.plot(one["value"], at, marker="o", color=style.PALETTE[0])
        axes.axvline(0.5, color=style.SOFT, linestyle="--", linewidth=1.0)
        axes.set_yticks(range(len(names)), names)
        axes.invert_yaxis()
        axes.set(xlim=(min(0.45, axes.get_xlim()[0]), 1.02), xlabel="AUC: retrieved above made up")
        return figure
