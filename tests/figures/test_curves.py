"""Curves: what is drawn is what was given (read back from the axes), and hard inputs do not break them."""

from __future__ import annotations

import numpy as np
import pytest

from glassformer.figures import curves
from glassformer.figures.curves import (
    Curve,
    Points,
    close_levels,
    cost_by_part,
    learning_curves,
    loss_by_position,
    short_number,
    smoothed,
    thinned,
)
from glassformer.figures.save import to_bytes


def lines(figure) -> dict[str, object]:
    return {line.get_label(): line for line in figure.axes[0].get_lines()}


def test_one_run() -> None:
    curve = Curve("mine", Points.of(range(1, 8), [5, 4, 3, 2, 2, 1, 1]), Points.of([0, 7], [5.5, 1.5]))
    found = lines(learning_curves([curve], title="a title"))
    assert list(found["validation"].get_xdata()) == [0, 7]
    assert list(found["validation"].get_ydata()) == [5.5, 1.5]
    assert found["validation"].get_marker() == "o"
    assert list(found["train"].get_ydata()) == [5, 4, 3, 2, 2, 1, 1]  # seven steps are not smoothed


def test_several_runs_have_a_mean_and_a_band() -> None:
    points = Points.of([0, 10, 20], [[5, 4, 3], [7, 4, 1]])
    figure = learning_curves([Curve("a", validation=points), Curve("b", validation=Points.of([0, 20], [4, 2]))])
    found = lines(figure)
    np.testing.assert_array_equal(found["a, validation (mean of 2)"].get_ydata(), [6, 4, 2])
    assert found["b, validation"].get_color() != found["a, validation (mean of 2)"].get_color()
    (band,) = figure.axes[0].collections
    assert band.get_datalim(figure.axes[0].transData).y0 == 1
    assert band.get_datalim(figure.axes[0].transData).y1 == 7


def test_baselines_are_level_lines_unless_far_above() -> None:
    curve = Curve("", Points.of([1, 2], [4, 2]))
    figure = learning_curves([curve], baselines={"bigram": 2.5, "uniform": 10.8})
    assert [text.get_text() for text in figure.axes[0].texts] == ["bigram 2.50"]


def test_perplexity_has_a_logarithmic_axis_with_its_levels() -> None:
    figure = learning_curves(
        [Curve("", Points.of([0, 10], [8000.0, 20.0]))], baselines={"bigram": 300.0, "near": 301.0}, log=True
    )
    (axes,) = figure.axes
    assert axes.get_yscale() == "log"
    assert [text.get_text() for text in axes.texts] == ["near 301.00\nbigram 300.00"]


def test_levels_too_near_share_a_label() -> None:
    assert close_levels({"b": 4.0, "a": 1.0, "c": 4.05, "d": 6.0}, apart=0.1) == [["a"], ["b", "c"], ["d"]]
    figure = learning_curves([Curve("", Points.of([1, 2], [5, 2]))], baselines={"untrained": 4.55, "uniform": 4.53})
    assert [text.get_text() for text in figure.axes[0].texts] == ["untrained 4.55\nuniform 4.53"]


def test_a_label_of_several_lines_needs_more_room() -> None:
    assert close_levels({"a": 1.0, "b": 1.05, "c": 1.16}, apart=0.1) == [["a", "b", "c"]]
    assert close_levels({"b": 1.05, "c": 1.16}, apart=0.1) == [["b"], ["c"]]


def test_names_of_levels_stand_where_no_curve_runs() -> None:
    figure = learning_curves([Curve("", Points.of([1, 2], [4, 2]))], baselines={"bigram": 2.5})
    (label,) = figure.axes[0].texts
    assert label.xy[0] > 1.0  # in parts of the axes' width
    assert label.get_ha() == "left"


@pytest.mark.parametrize(
    "given",
    [
        [],
        [Curve("nothing")],
        [Curve("empty", Points.of([], []), Points.of([], []))],
        [Curve("one point", Points.of([1], [2.0]), Points.of([1], [2.0]))],
        [Curve("diverged", Points.of([1, 2, 3], [2.0, np.inf, np.nan]), Points.of([3], [np.nan]))],
        [Curve(f"run {i}", Points.of([1, 2], [i, i + 1])) for i in range(30)],
    ],
)
def test_hard_inputs_are_drawn_without_a_warning(given: list[Curve]) -> None:
    assert to_bytes(learning_curves(given))


def test_shapes_must_agree() -> None:
    with pytest.raises(ValueError, match="do not belong"):
        Points.of([1, 2, 3], [1, 2])


def test_what_is_not_finite_is_a_gap() -> None:
    np.testing.assert_array_equal(Points.of([1, 2, 3], [2.0, np.inf, np.nan]).runs, [[2.0, np.nan, np.nan]])


def test_long_curves_are_thinned_by_means(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(curves, "MAX_POINTS", 3)
    steps, runs = thinned(Points.of([1, 2, 3, 4, 5, 6, 7], [7, 7, 1, 2, 3, 4, 8]))
    np.testing.assert_allclose(steps, [2, 5, 7])
    np.testing.assert_allclose(runs, [[5, 3, 8]])


def test_smoothing_by_hand() -> None:
    np.testing.assert_allclose(smoothed(np.array([3.0, 6.0, np.nan, 9.0]), 3), [4.5, 4.5, 7.5, 9.0])
    np.testing.assert_allclose(smoothed(np.array([3.0, 6.0]), 1), [3.0, 6.0])


def test_loss_by_position() -> None:
    figure = loss_by_position(
        {"model": np.array([3.0, 2.0]), "bigram": np.array([2.5, 2.5])}, {"model": np.array([0.1, np.nan])}
    )
    found = lines(figure)
    assert list(found["model"].get_xdata()) == [1, 2]
    assert len(figure.axes[0].collections) == 1
    assert to_bytes(figure)


def test_cost_by_part() -> None:
    figure = cost_by_part({"mixer": 750_000.0, "head": 250_000.0}, unit="parameters")
    assert [text.get_text() for text in figure.axes[0].texts] == ["750k  (75%)", "250k  (25%)"]
    assert [bar.get_width() for bar in figure.axes[0].patches] == [750_000, 250_000]
    assert cost_by_part({"norm": 1.0, "mixer": 999.0}, unit="parameters").axes[0].texts[0].get_text() == "1  (<1%)"
    assert to_bytes(cost_by_part({"nothing": 0.0}, unit="bytes"))


@pytest.mark.parametrize(
    ("number", "text"),
    [(0, "0"), (7.25, "7.25"), (999, "999"), (1234, "1.23k"), (999_960, "1M"), (2.5e9, "2.5G"), (-4e12, "-4T")],
)
def test_short_numbers(number: float, text: str) -> None:
    assert short_number(number) == text
