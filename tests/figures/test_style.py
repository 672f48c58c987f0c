"""The look holds inside the ``with`` only, and lines can be told apart."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import matplotlib as mpl
import pytest

from glassformer.figures.save import inline_svg
from glassformer.figures.style import PALETTE, legend_below, line_look, log_axis, new_axes, styled


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


@pytest.mark.parametrize(("low", "high"), [(1e-6, 1e3), (20, 90), (150, 4000)])
def test_a_logarithmic_axis_has_plain_numbers(low: float, high: float) -> None:
    with styled():
        figure, axes = new_axes()
        axes.plot([1, 2], [low, high])
        log_axis(axes.yaxis)
        texts = "\n".join(ElementTree.fromstring(inline_svg(figure)).itertext())
    plain = re.findall(r"^\s*(\d[\d.]*(?:e[+-]\d+)?)\s*$", texts, re.MULTILINE)
    assert any(low <= float(number) <= high and float(number) > 2 for number in plain)  # 1 to 2 is the other axis
    assert "$" not in texts
    assert axes.get_yscale() == "log"
    assert axes.get_xscale() == "linear"


def test_a_legend_stands_below_the_picture() -> None:
    with styled():
        figure, axes = new_axes()
        axes.plot([1, 2], label="train")
        legend_below(figure, axes)
        figure.draw_without_rendering()
        (legend,) = figure.legends
    assert legend.get_window_extent().y1 <= axes.get_window_extent().y0
    assert axes.get_legend() is None


def test_no_picture_of_the_docs_has_markup_in_its_text() -> None:
    root = Path(__file__).parents[2]
    wrong = [
        str(file.relative_to(root))
        for file in [*root.glob("docs/**/*.svg"), *root.glob("docs/**/*.html")]
        if "\\math" in file.read_text(encoding="utf-8")
    ]
    assert wrong == []
