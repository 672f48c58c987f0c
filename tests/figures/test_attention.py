"""Figures of attention: the right cells dark, tokens on both axes, a scale that everybody can read."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from matplotlib.colors import to_rgb

from glassformer.figures.attention import (
    ON_DARK,
    ON_LIGHT,
    draw_effects,
    draw_grid,
    draw_map,
    draw_patching,
    scale,
)
from glassformer.figures.save import to_bytes
from glassformer.foundation.estimate import Estimate


def luminance(colour) -> float:
    return float(np.dot(to_rgb(colour[:3] if not isinstance(colour, str) else colour), [0.2126, 0.7152, 0.0722]))


@pytest.mark.parametrize(("dark", "sign"), [(False, -1), (True, 1)])
def test_lightness_goes_one_way(dark: bool, sign: int) -> None:
    steps = np.array([luminance(scale(dark)(value)) for value in np.linspace(0, 1, 64)])
    assert (sign * np.diff(steps) > 0).all()


@pytest.mark.parametrize("colours", [ON_LIGHT, ON_DARK])
def test_neighbours_differ_without_red_and_green(colours) -> None:
    """Seen by someone who cannot tell red from green (their mean is seen instead), every step is still a visible one."""
    seen = [(sum(to_rgb(colour)[:2]) / 2, to_rgb(colour)[2]) for colour in colours]
    assert all(np.hypot(*np.subtract(a, b)) > 0.1 for a, b in itertools.pairwise(seen))


def test_a_map() -> None:
    figure = draw_map(np.array([[1, 0, 0], [0.25, 0.75, 0]]), ["a", " "], ["$x", "b\n", "a very long token"], title="t")
    axes = figure.axes[0]
    np.testing.assert_allclose(axes.images[0].get_array(), np.sqrt([[1, 0, 0], [0.25, 0.75, 0]]))
    assert [label.get_text() for label in axes.get_xticklabels()] == ["$x", "b↵", "a very long…"]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["a", "␣"]
    assert b"very long" in to_bytes(figure)


def test_many_tokens_get_some_labels() -> None:
    axes = draw_map(np.eye(100), ["x"] * 100, ["y"] * 100).axes[0]
    assert len(axes.get_xticklabels()) == 34
    assert axes.get_xticklabels()[1].get_text() == "3 y"


def test_the_others() -> None:
    grid = draw_grid(np.zeros((2, 3, 4, 4)), layers=[5, 7], title="all")
    assert len(grid.axes) == 6
    assert grid.axes[3].get_ylabel() == "layer 7"
    effects = draw_effects({"0.0": Estimate(0.1, 0.0, 0.2, 3), "0.1": Estimate(0.4)}, unit="nats")
    assert [label.get_text() for label in effects.axes[0].get_yticklabels()] == ["0.1", "0.0"]
    patched = draw_patching(np.array([[0.0, 2.0, 0.5], [1.0, 0.1, -1.0]]), ["a", "b", "c"], ["embedded", "layer 0"])
    assert [label.get_text() for label in patched.axes[0].get_yticklabels()] == ["embedded", "layer 0"]
    assert patched.axes[0].images[0].get_array().tolist() == [[0.0, 1.0, 0.5], [1.0, 0.1, 0.0]]
