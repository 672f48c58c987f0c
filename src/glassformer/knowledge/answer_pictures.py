"""The details of an evaluation of answers -> figures with captions, for reports."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def answer_pictures(details: Mapping[str, Any]) -> list[tuple[Any, str]]:
    """Figures and captions, for whatever the evaluation has."""
    # Imported here, because every command imports all objectives, and matplotlib takes half a second.
    from glassformer.knowledge.answer_figures import confidence_of_groups, coverage_curve, reliability_diagram, score_bars

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
        found.append((coverage_curve({"model": details["coverage"]}), caption))
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
