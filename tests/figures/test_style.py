"""The look holds inside the ``with`` only, and lines can be told apart."""

from __future__ import annotations

import matplotlib as mpl
import pytest

from glassformer.figures.style import PALETTE, line_look, new_axes, styled


def test_a_users_settings_are_left_as_they_were() -> None:
    with mpl.rc_context({"font.size": 23.0}):
        with styled():
            assert mpl.rcParams["font.size"] == 10.0
            assert mpl.rcParams["svg.fonttype"] == "none"
        assert mpl.rcParams["font.size"] == 23.0
        with pytest.raises(KeyError), styled():
            raise KeyError
        assert mpl.rcParams["font.size"] == 23.0


def test_24_lines_look_different() -> None:
    looks = {(look["color"], look["linestyle"]) for look in map(line_look, range(24))}
    assert len(looks) == 24


def test_colours_are_readable_on_white() -> None:
    def brightness(colour: str) -> float:
        red, green, blue = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
        return 0.299 * red + 0.587 * green + 0.114 * blue

    assert len(set(PALETTE)) == 6
    assert all(brightness(colour) < 200 for colour in PALETTE)  # readable on white


def test_a_figure_has_one_picture_of_the_given_size() -> None:
    with styled():
        figure, axes = new_axes(5.0, 2.0)
    assert tuple(figure.get_size_inches()) == (5.0, 2.0)
    assert figure.axes == [axes]
