"""The pictures of attention by hand: of answers, and one per exploration."""

from __future__ import annotations

import numpy as np
import pytest

from glassformer.figures import byhand
from glassformer.figures.byhand import SMALLEST, answer_figure, pattern_figure, replacement_figure
from glassformer.figures.save import inline_svg

GRID = np.linspace(0.1, 3, 5)


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


def _titles(figure) -> list[str]:
    assert "<svg" in inline_svg(figure)
    return [axis.get_title() for axis in figure.axes]


def test_copying():
    figure = byhand.copying_figure(
        betas=GRID, errors={"a": GRID, "b": 2 * GRID}, promise=3 * GRID, weights=np.full((5, 4), 0.25)
    )
    assert _titles(figure) == ["Error", "Weights for q = beta k_1"]
    np.testing.assert_allclose(figure.axes[0].lines[2].get_ydata(), 3 * GRID)


def test_averaging():
    rows = {"a": np.exp(-GRID), "b": np.zeros(5)}
    figure = byhand.averaging_figure(
        betas=GRID, errors=rows, sizes=GRID, leaks_by_size=rows, middle=2.0, lengths=GRID, leaks_by_length=rows
    )
    assert _titles(figure) == ["Error against beta", "Against n, beta = 2", "At equal length of q"]
    assert figure.axes[0].lines[1].get_ydata()[0] == byhand.SMALLEST


def test_argmax_writes_out_the_zero():
    gradients = {name: {"query": value, "values": 1.0} for name, value in (("argmax", 0.0), ("softmax", 2.0), ("st", 3.0))}
    figure = byhand.argmax_figure(
        gradients=gradients,
        temperatures=GRID,
        gradient_by_temperature=GRID,
        distance_by_temperature=GRID,
        losses={"argmax": GRID, "softmax": GRID},
    )
    assert len(_titles(figure)) == 3
    assert [text.get_text() for text in figure.axes[0].texts] == ["0"]


def test_superposition():
    rows = {"2 A A^T": GRID, "oblique": GRID / 2}
    figure = byhand.superposition_figure(angles=90 - GRID, errors={"without": rows, "with": rows}, formula=GRID)
    assert _titles(figure) == ["without", "with"]


def test_heads_shows_shares():
    weights = {"one": np.array([0.0, 1, 1, 0]), "two": np.full(4, 0.5)}
    figure = byhand.heads_figure(weights=weights, sample=3)
    assert _titles(figure)[:2] == ["one", "two"]
    assert sum(patch.get_height() for patch in figure.axes[0].patches) == 1


def test_outer_products():
    figure = byhand.outer_products_figure(
        patterns={"without": np.eye(3), "with": np.eye(3)}, betas=GRID, distances={"c2": GRID}, nearest=0.6, chosen=2.0
    )
    assert _titles(figure) == ["without", "with", "Distances"]
