from __future__ import annotations

import numpy as np
import pytest

from glassformer.figures.byhand_answers import SMALLEST, answer_figure, pattern_figure, replacement_figure
from glassformer.figures.encode import inline_svg


def _answer(keys, best=None, n=3, floor=0.0):
    lengths = np.linspace(0, 5, 7)
    weights = {name: np.full(n, 1 / n) for name in ("goal", "best query", "least squares")}
    return answer_figure(
        title="select 1",
        lengths=lengths,
        best=np.exp(-lengths) if best is None else best,
        least_squares=np.exp(-lengths / 2),
        floor=floor,
        weights=weights,
        keys=keys,
        query=np.array([1.0, 2.0]),
    )


def test_keys_are_drawn_where_they_lie_in_a_plane():
    assert len(_answer(None).axes) == 2
    figure = _answer(np.array([[1.0, 0], [0, 1], [0, 0]]))
    assert [axis.get_title() for axis in figure.axes][2].startswith("Keys")
    assert {text.get_text() for text in figure.axes[2].texts} >= {"1", "2", "3", "q"}


def test_the_curve_shows_the_data_on_a_fitting_axis():
    curve = _answer(None).axes[0]
    assert curve.get_yscale() == "log"
    np.testing.assert_allclose(curve.lines[0].get_ydata(), np.exp(-np.linspace(0, 5, 7)))
    flat = _answer(None, best=np.zeros(7)).axes[0]
    assert flat.get_yscale() == "linear"
    assert flat.lines[0].get_ydata()[0] == SMALLEST
    assert len(_answer(None, floor=0.1).axes[0].lines) == len(curve.lines) + 1


@pytest.mark.parametrize("n", [1, 15, 90])
def test_any_number_of_keys(n):
    bars = _answer(None, n=n).axes[1]
    assert len(bars.patches) == (3 * n if n <= 40 else 0)
    assert len(bars.lines) == (0 if n <= 40 else 3)


def test_pattern_has_its_numbers_where_they_can_be_read():
    small = pattern_figure(title="identity", patterns={"a": np.eye(3), "b": np.eye(3) / 2})
    assert [text.get_text() for text in small.axes[1].texts][:2] == ["0.50", "0.00"]
    assert not pattern_figure(title="identity", patterns={"a": np.eye(30)}).axes[0].texts


def test_replacement_marks_old_new_and_allowed():
    grid = np.linspace(-2, 2, 9)
    weights = {name: np.array([0.5, 0.5]) for name in ("goal", "before", "after")}
    marks = {"old key": -1.0, "new key": 1.5}
    for allowed in (None, (-2.0, 2.0)):
        figure = replacement_figure(title="t", weights=weights, scores=grid, kls=grid**2, marks=marks, allowed=allowed)
        curve = figure.axes[0]
        assert [line.get_xdata()[0] for line in curve.lines[1:]] == [-1.0, 1.5]
        assert len(curve.patches) == (0 if allowed is None else 1)
        assert "<svg" in inline_svg(figure)
