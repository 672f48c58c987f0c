from __future__ import annotations

from typing import Any

from matplotlib.figure import Figure

from glassformer.byhand.result import Result


class Hostile(Result):
    @property
    def title(self) -> str:
        return "<script>alert(1)</script>"

    @property
    def text(self) -> str:
        return "a < b\n\n& c"

    def to_dict(self) -> dict[str, Any]:
        return {}

    def figure(self) -> Figure:
        figure = Figure(figsize=(2, 1))
        figure.add_subplot().plot([0, 1])
        return figure


def test_shows_itself_offline_and_escaped():
    view = Hostile()._repr_html_()
    assert "<p>a &lt; b</p><p>&amp; c</p>" in view
    assert "<script" not in view
    assert "<svg" in view
    assert "<?xml" not in view


def test_page_is_whole_and_loads_nothing():
    page = Hostile().page()
    assert page.startswith("<!doctype html>")
    assert "<title>&lt;script&gt;" in page
    for way in ("src=", "<link", "@import", "<script", "url(http"):
        assert way not in page
