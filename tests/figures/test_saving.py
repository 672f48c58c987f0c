from __future__ import annotations

from pathlib import Path

import pytest
from matplotlib.figure import Figure

from glassformer.figures.saving import save_figure, svg_text
from glassformer.foundation.errors import UsageError


def _figure() -> Figure:
    figure = Figure(figsize=(2, 1))
    figure.add_subplot().plot([0, 1], label="a")
    return figure


def test_the_same_figure_gives_the_same_bytes(tmp_path: Path):
    assert svg_text(_figure()) == svg_text(_figure())
    for name in ("a.svg", "a.png"):
        save_figure(_figure(), tmp_path / name)
        first = (tmp_path / name).read_bytes()
        save_figure(_figure(), tmp_path / name)
        assert (tmp_path / name).read_bytes() == first
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "a.svg").read_text().startswith("<?xml")


def test_svg_stands_inside_a_page():
    text = svg_text(_figure())
    assert text.startswith("<svg")
    assert text.rstrip().endswith("</svg>")
    assert "<!DOCTYPE" not in text


def test_other_endings_are_refused(tmp_path: Path):
    for name in ("a.pdf", "a"):
        with pytest.raises(UsageError, match=r"\.svg or \.png"):
            save_figure(_figure(), tmp_path / name)
    assert not list(tmp_path.iterdir())
