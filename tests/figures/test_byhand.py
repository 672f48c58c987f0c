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
    rows = {"error": GRID, "error_widest_lead": 2 * GRID, "promised_error": 3 * GRID}
    figure = byhand.copying_figure({"beta": GRID, **rows, "weights": np.full((5, 4), 0.25)})
    assert _titles(figure) == ["Error", "Weights for q = beta k_1"]
    np.testing.assert_allclose(figure.axes[0].lines[2].get_ydata(), 3 * GRID)


def test_averaging():
    rows = {"a": np.exp(-GRID), "b": np.zeros(5)}
    against = {"error": rows, "leak_by_n": rows, "leak_by_length": rows}
    figure = byhand.averaging_figure({"beta": GRID, "n": GRID, "length": GRID, "leak_by_n_at_beta": 2.0, **against})
    assert _titles(figure) == ["Error against beta", "Against n, beta = 2", "At equal length of q"]
    assert figure.axes[0].lines[1].get_ydata()[0] == byhand.SMALLEST


def test_argmax_writes_out_the_zero():
    gradients = {name: {"query": value, "values": 1.0} for name, value in (("argmax", 0.0), ("softmax", 2.0), ("st", 3.0))}
    sweep = dict.fromkeys(("temperature", "query_gradient_by_temperature", "distance_to_argmax_by_temperature"), GRID)
    figure = byhand.argmax_figure({"gradients": gradients, **sweep, "losses": {"argmax": GRID, "softmax": GRID}})
    assert len(_titles(figure)) == 3
    assert [text.get_text() for text in figure.axes[0].texts] == ["0"]


def test_superposition():
    rows = {"2 A A^T": GRID, "oblique": GRID / 2}
    numbers = {"angle": 90 - GRID, "error": rows, "error_with_noise": rows, "formula": GRID, "noise": "0.05"}
    assert _titles(byhand.superposition_figure(numbers)) == ["without noise", "with noise 0.05"]


def test_heads_shows_shares():
    weights = {"one": np.array([0.0, 1, 1, 0]), "two": np.full(4, 0.5)}
    figure = byhand.heads_figure({"weights": weights})
    assert _titles(figure)[:2] == ["one", "two"]
    assert sum(patch.get_height() for patch in figure.axes[0].patches) == 1


def test_outer_products():
    patterns = {"pattern_without": np.eye(3), "pattern_with": np.eye(3)}
    distances = {"beta": GRID, "distances_by_beta": {"c2": GRID}, "nearest_mixture_to_u_b": 0.6, "chosen": 2.0}
    figure = byhand.outer_products_figure({**patterns, **distances})
    assert _titles(figure) == ["x as key, query, value", "with Q, K, V", "Distances"]
