"""The reliability diagram: a point for each bin, with its interval and its count."""

from __future__ import annotations

from glassformer.figures.predictions import reliability_diagram


def test_a_point_for_each_bin() -> None:
    bins = [
        {"confidence": 0.3, "accuracy": {"value": 0.25, "low": 0.1, "high": 0.5}, "n": 4},
        {"confidence": 0.9, "accuracy": {"value": 1.0, "low": 0.7, "high": 1.0}, "n": 7},
    ]
    (axes,) = reliability_diagram(bins, title="t").axes
    assert [text.get_text() for text in axes.texts] == ["4", "7"]
    drawn = axes.containers[0].lines[0]
    assert drawn.get_xdata().tolist() == [0.3, 0.9]
    assert drawn.get_ydata().tolist() == [0.25, 1.0]
