"""A result shows itself offline and escaped; numbers in the words of its sentences."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from matplotlib.figure import Figure

from glassformer.byhand.result import Result, combination, fraction, number, percent, some_keys, vector


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
    for way in ("src=", '<link rel="style', "@import", "<script", "url(http"):
        assert way not in page


@pytest.mark.parametrize(
    ("x", "text"),
    [
        (0, "0"),
        (0.25, "0.25"),
        (-2.0, "-2"),
        (3.14159, "3.142"),
        (12345.6, "12346"),
        (1e-7, "1.00e-07"),
        (2e5, "2.00e+05"),
        (1.0, "1"),
        (0.99995, "0.999950"),
        (1 - 1e-15, "1"),
    ],
)
def test_number(x, text):
    assert number(x) == text


def test_lists_and_combinations():
    assert vector([0.5, 1, -0.25]) == "(0.5, 1, -0.25)"
    assert some_keys([0]) == "key 1"
    assert some_keys([0, 1, 4]) == "keys 1, 2 and 5"
    assert combination({1: Fraction(1, 4), 2: Fraction(3, 4)}) == "1/4 key 2 + 3/4 key 3"
    assert combination({0: Fraction(1), 3: Fraction(-2)}) == "key 1 - 2 key 4"
    assert combination({0: -0.5, 2: 1.5}, "log p") == "- 0.5 log p1 + 1.5 log p3"
    assert fraction(Fraction(1, 3)) == "1/3"
    assert fraction(Fraction(1, 3001)) == "0.0003332"
    assert fraction(Fraction(7)) == "7"
    assert percent(0.8791) == "87.9 %"
