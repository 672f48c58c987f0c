"""Differences with intervals: what is drawn is what was given, and hard inputs do not break it."""

from __future__ import annotations

import math

import numpy as np
import pytest

from glassformer.figures.intervals import LONGEST_LABEL, CostPoint, IntervalRow, cost_against_quality, difference_intervals
from glassformer.figures.save import to_bytes

ROWS = [
    IntervalRow("alibi", "better", -0.03, -0.04, -0.02, (-0.05, -0.03, -0.01)),
    IntervalRow("shuffle", "same", 0.001, -0.002, 0.004, (0.0, 0.002)),
    IntervalRow("broken", "invalid"),
]


def drawn(rows=ROWS, **more):
    figure = difference_intervals(rows, **{"margin": 0.01, "unit": "nats per token", **more})
    return figure, figure.axes[0]


def texts(axes) -> list[str]:
    return [text.get_text() for text in axes.texts]


def test_every_seed_is_a_dot_beside_its_interval():
    _, axes = drawn()
    for place, (row, dots) in enumerate(zip(ROWS, axes.collections)):
        offsets = np.asarray(dots.get_offsets())
        assert sorted(offsets[:, 0]) == sorted(row.dots)
        assert np.all(np.abs(offsets[:, 1] - place) < 0.3)
    spans = [list(line.get_xdata()) for line in axes.get_lines() if len(line.get_xdata()) == 2]
    assert [-0.04, -0.02] in spans
    assert [-0.002, 0.004] in spans


def test_words_labels_and_the_way_that_is_better():
    _, axes = drawn(title="three changes")
    assert [label.get_text() for label in axes.get_yticklabels()] == ["alibi", "shuffle", "broken"]
    assert {"better", "same", "invalid", "← better", "worse →"} <= set(texts(axes))
    assert "nats per token" in axes.get_xlabel()
    assert "margin of 0.01" in axes.get_xlabel()
    assert axes.get_title(loc="left") == "three changes"
    _, rising = drawn(lower_is_better=False)
    assert {"← worse", "better →"} <= set(texts(rising))


def test_first_on_top_and_everything_in_view():
    _, axes = drawn()
    bottom, top = axes.get_ylim()
    assert bottom > len(ROWS) - 1 > 0 > top
    low, high = axes.get_xlim()
    assert low < -0.05
    assert high > 0.01


def test_a_variant_that_cheats_does_not_squeeze_the_others():
    cheat = IntervalRow("reweight", "invalid", -0.8, -0.81, -0.79, (-0.8, -0.79))
    _, axes = drawn([*ROWS, cheat])
    assert axes.get_xlim()[0] > -0.1
    assert "◀ -0.8" in texts(axes)
    _, alone = drawn([cheat])
    assert alone.get_xlim()[0] < -0.81
    _, above = drawn([ROWS[0], IntervalRow("reweight", "invalid", 0.8)])
    assert "0.8 ▶" in texts(above)


@pytest.mark.parametrize(
    "rows",
    [
        [],
        [IntervalRow("nothing", "not decided")],
        [IntervalRow("exactly equal", "same", 0.0, 0.0, 0.0, (0.0,) * 8)],
        [IntervalRow("no numbers", "invalid", None, None, None, (math.nan, math.inf, 0.1))],
        [IntervalRow("x" * 200 + "$_^", "not decided", 0.1, -1.0, 1.0, (0.1,))],
        [IntervalRow(f"change {i}", "worse", i, i - 1, i + 1, (i, i)) for i in range(40)],
    ],
    ids=["none", "empty", "equal", "not finite", "long", "many"],
)
def test_hard_inputs_are_drawn(rows):
    figure, axes = drawn(rows, margin=None)
    assert to_bytes(figure, ".png").startswith(b"\x89PNG")
    assert all(len(label.get_text()) <= LONGEST_LABEL for label in axes.get_yticklabels())


def test_equal_seeds_stay_several_dots():
    _, axes = drawn([IntervalRow("a", "same", 0.0, 0.0, 0.0, (0.0, 0.0))])
    assert len({tuple(offset) for offset in np.asarray(axes.collections[0].get_offsets())}) == 2


def test_the_same_picture_twice_is_the_same_bytes():
    assert to_bytes(drawn()[0]) == to_bytes(drawn()[0])


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


def test_names_of_equal_points_stand_one_below_the_other() -> None:
    """Three changes that cost and reach the same: their names were printed on top of each other."""
    same = [CostPoint(f"change {at}", 110_000.0, 2.577 + at / 1e4) for at in range(3)]
    figure = cost_against_quality([*same, CostPoint("cheaper", 106_000.0, 2.4)], cost="parameters", quality="loss")
    figure.canvas.draw()
    boxes = [text.get_window_extent() for text in figure.axes[0].texts]
    assert len(boxes) == 4
    assert not any(one.overlaps(other) for at, one in enumerate(boxes) for other in boxes[:at])


def test_it_can_be_drawn_with_one_point_and_strange_names() -> None:
    assert b"<svg" in to_bytes(cost_against_quality([CostPoint("$x_<&", 3.0, 1.0)], cost="seconds", quality="loss"))
