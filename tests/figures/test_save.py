"""Encoding: equal figures give equal bytes, names do not clash, nothing points outside, wrong endings are named."""

from __future__ import annotations

import re
import xml.etree.ElementTree

import pytest
from matplotlib.figure import Figure
from tests.refusals import refused

from glassformer.figures.save import inline_svg, printable, save_figure, to_bytes
from glassformer.figures.style import new_axes, styled
from glassformer.foundation.errors import UsageError


@pytest.fixture
def figure() -> Figure:
    with styled():
        figure, axes = new_axes(3.0, 2.0)
        axes.plot([1, 2, 3], [3, 1, 2], marker="o", label="a < b")
        axes.legend()
    return figure


def test_svg_is_an_element_with_text_and_a_label(figure: Figure) -> None:
    svg = inline_svg(figure, label='loss of "x" & y')
    root = xml.etree.ElementTree.fromstring(svg)
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    assert root.get("aria-label") == 'loss of "x" & y'
    assert "a &lt; b" in svg  # text stays text
    assert xml.etree.ElementTree.fromstring(inline_svg(figure)).get("aria-hidden") == "true"


def test_nothing_points_outside(figure: Figure) -> None:
    svg = inline_svg(figure)
    assert "metadata" not in svg
    assert all(value.startswith("#") for value in re.findall(r'href="([^"]*)"', svg))
    assert all(value.startswith("#") for value in re.findall(r"url\(([^)]*)\)", svg))


def test_two_figures_of_a_page_share_no_names(figure: Figure) -> None:
    first, second = inline_svg(figure, prefix="f1-"), inline_svg(figure, prefix="f2-")
    names = [set(re.findall(r'\bid="([^"]*)"', svg)) for svg in (first, second)]
    assert names[0]
    assert not names[0] & names[1]
    used = set(re.findall(r'href="#([^"]*)"', first)) | set(re.findall(r"url\(#([^)]*)\)", first))
    assert used
    assert used <= names[0]


@pytest.mark.parametrize("suffix", [".svg", ".png", ".pdf"])
def test_equal_figures_give_equal_bytes(figure: Figure, suffix: str) -> None:
    assert to_bytes(figure, suffix) == to_bytes(figure, suffix)


@pytest.mark.parametrize(("name", "start"), [("a.svg", b"<?xml"), ("a.PNG", b"\x89PNG"), ("deep/a.pdf", b"%PDF")])
def test_files_by_suffix(figure: Figure, tmp_path, name: str, start: bytes) -> None:
    assert save_figure(figure, tmp_path / name).read_bytes().startswith(start)


@pytest.mark.parametrize("name", ["a.jpeg", "a"])
def test_unknown_endings_are_refused_and_nothing_is_written(figure: Figure, tmp_path, name: str) -> None:
    with refused(UsageError, "unknown-figure-format", ".svg, .png, .pdf"):
        save_figure(figure, tmp_path / name)
    assert list(tmp_path.iterdir()) == []


def test_any_text_can_be_drawn() -> None:
    with styled():
        figure, axes = new_axes(3.0, 2.0)
        axes.set_title("costs $5 and $x_ \\frac{ \x00 漢字")
    svg = inline_svg(figure)
    assert "costs $5 and $x_ \\frac{ \ufffd 漢字" in xml.etree.ElementTree.fromstring(svg).itertext()
    assert to_bytes(figure, ".png")


def test_printable() -> None:
    assert printable("a\tb\nc\x00\x1b\ud800é") == "a\tb\nc\ufffd\ufffd\ufffdé"
