from __future__ import annotations

import numpy as np

from glassformer.figures import byhand_explorations as figures
from glassformer.figures.encode import inline_svg

GRID = np.linspace(0.1, 3, 5)


def _titles(figure) -> list[str]:
    assert "<svg" in inline_svg(figure)
    return [axis.get_title() for axis in figure.axes]


def test_copying():
    figure = figures.copying_figure(
        betas=GRID, errors={"a": GRID, "b": 2 * GRID}, promise=3 * GRID, weights=np.full((5, 4), 0.25)
    )
    assert _titles(figure) == ["Error", "Weights for q = beta k_1"]
    np.testing.assert_allclose(figure.axes[0].lines[2].get_ydata(), 3 * GRID)


def test_averaging():
    rows = {"a": np.exp(-GRID), "b": np.zeros(5)}
    figure = figures.averaging_figure(
        betas=GRID, errors=rows, sizes=GRID, leaks_by_size=rows, middle=2.0, lengths=GRID, leaks_by_length=rows
    )
    assert _titles(figure) == ["Error against beta", "Against n, beta = 2", "At equal length of q"]
    assert figure.axes[0].lines[1].get_ydata()[0] == figures.SMALLEST


def test_argmax_writes_out_the_zero():
    gradients = {name: {"query": value, "values": 1.0} for name, value in (("argmax", 0.0), ("softmax", 2.0), ("st", 3.0))}
    figure = figures.argmax_figure(
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
    figure = figures.superposition_figure(angles=90 - GRID, errors={"without": rows, "with": rows}, formula=GRID)
    assert _titles(figure) == ["without", "with"]


def test_heads_shows_shares():
    weights = {"one": np.array([0.0, 1, 1, 0]), "two": np.full(4, 0.5)}
    figure = figures.heads_figure(weights=weights, sample=3)
    assert _titles(figure)[:2] == ["one", "two"]
    assert sum(patch.get_height() for patch in figure.axes[0].patches) == 1


def test_outer_products():
    figure = figures.outer_products_figure(
        patterns={"without": np.eye(3), "with": np.eye(3)}, betas=GRID, distances={"c2": GRID}, nearest=0.6, chosen=2.0
    )
    assert _titles(figure) == ["without", "with", "Distances"]
