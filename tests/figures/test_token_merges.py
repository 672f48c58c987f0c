"""The picture of merges: every piece under its symbols, the fresh one marked, any text drawn as it is."""

from __future__ import annotations

from pathlib import Path

import pytest
from matplotlib.patches import Rectangle

from glassformer.figures.save import save_figure
from glassformer.figures.token_merges import MergeRow, draw_merges

ROWS = [
    MergeRow("symbols", [("l", 1), ("o", 1), ("w", 1), ("s", 1)]),
    MergeRow("merge 3: o + w", [("l", 1), ("ow", 2), ("s", 1)], fresh=1),
    MergeRow("merge 8: l + ow", [("low", 3), ("s", 1)], fresh=0),
]


def test_pieces_stand_under_their_symbols() -> None:
    figure = draw_merges(ROWS, "low")
    (axes,) = figure.axes
    boxes = [patch for patch in axes.patches if isinstance(patch, Rectangle)]
    middles = [(box.get_x() + box.get_width() / 2, box.get_y() + box.get_height() / 2) for box in boxes]
    expected = [(0.5, 0.5), (1.5, 0.5), (2.5, 0.5), (3.5, 0.5), (0.5, 1.5), (2.0, 1.5), (3.5, 1.5), (1.5, 2.5), (3.5, 2.5)]
    assert [pytest.approx(middle) for middle in middles] == expected
    widths = [box.get_width() for box in boxes]
    assert widths[5] - widths[0] == pytest.approx(1)
    assert widths[7] - widths[0] == pytest.approx(2)
    assert axes.get_ylim() == (3, 0)  # time runs downwards


def test_only_the_fresh_piece_is_marked() -> None:
    (axes,) = draw_merges(ROWS, "low").axes
    colours = [patch.get_facecolor() for patch in axes.patches]
    assert len(set(colours)) == 2
    assert [red > blue for red, _, blue, _ in colours] == [False] * 5 + [True, False, True, False]  # orange against blue


def test_texts_are_drawn_as_they_are(tmp_path: Path) -> None:
    rows = [MergeRow("merge 1: $a$ + <b>", [("$a_1$", 1), ("\\frac", 2), ("<0xE2>", 1)])]
    save_figure(draw_merges(rows, "$x^2$ & co"), tmp_path / "word.svg")
    svg = (tmp_path / "word.svg").read_text(encoding="utf-8")
    for text in ("$a_1$", "\\frac", "&lt;0xE2&gt;", "$x^2$ &amp; co", "merge 1: $a$ + &lt;b&gt;"):
        assert f">{text}</text>" in svg


def test_wide_texts_make_room() -> None:
    narrow, wide = (draw_merges([MergeRow("", [(text, 1)] * 5)], "") for text in ("a", "<0xE2><0x80>"))
    assert wide.get_figwidth() > 2 * narrow.get_figwidth()


def test_nothing_to_draw_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one row"):
        draw_merges([], "")
