"""Cost against quality: every variant is a named point at its place, with its interval."""

from __future__ import annotations

import pytest

from glassformer.figures.cost import CostPoint, cost_against_quality
from glassformer.figures.encode import to_bytes

POINTS = [CostPoint("base", 1.5e9, 2.0, 1.9, 2.2), CostPoint("alibi", 2.5e9, 1.7)]


def test_points_stand_where_they_cost_and_reached() -> None:
    axes = cost_against_quality(POINTS, cost="FLOPs", quality="loss").axes[0]
    bar, base, alibi = axes.get_lines()
    assert list(bar.get_xdata()) == [1.5e9, 1.5e9]
    assert list(bar.get_ydata()) == pytest.approx([1.9, 2.2])
    assert (base.get_xdata()[0], base.get_ydata()[0]) == (1.5e9, 2.0)
    assert (alibi.get_xdata()[0], alibi.get_ydata()[0]) == (2.5e9, 1.7)
    assert [text.get_text() for text in axes.texts] == ["base", "alibi"]
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("FLOPs", "loss")
    assert axes.xaxis.get_major_formatter()(2e9, 0) == "2G"


def test_it_can_be_drawn_with_one_point_and_strange_names() -> None:
    assert b"<svg" in to_bytes(cost_against_quality([CostPoint("$x_<&", 3.0, 1.0)], cost="seconds", quality="loss"))
