"""Cells as text, numeric columns, rows that do not fit."""

from __future__ import annotations

import pytest

from glassformer.foundation.estimate import Estimate
from glassformer.pages.page import Table, cell_text, spans


@pytest.mark.parametrize(
    ("cell", "text"),
    [
        (None, "–"),
        ("a", "a"),
        (True, "yes"),
        (False, "no"),
        (1234567, "1,234,567"),
        (1.25, "1.250"),
        (Estimate(1.25, 1.0, 1.5, 9), "1.250 [1.000, 1.500]"),
        (Estimate(None, reason="UNK"), "not defined (UNK)"),
    ],
)
def test_cells(cell, text: str) -> None:
    assert cell_text(cell) == text


def test_numeric_columns() -> None:
    table = Table(["name", "n", "mixed", "empty", "flag"], [["a", 1, 2.0, None, True], ["b", None, "x", None, False]])
    assert table.numeric_columns() == [False, True, False, False, False]
    assert Table(["a"], []).numeric_columns() == [False]
    written = Table(
        ["FLOPs", "memory", "share", "name", "line"], [["4.05e+10", "4.75 MB", "12.5 %", "4 layers", "train.txt:4"]]
    )
    assert written.numeric_columns() == [True, True, True, False, False]


@pytest.mark.parametrize(
    ("sentence", "parts"),
    [
        ("no code", [("no code", False)]),
        ("", []),
        ("run `a b`, then `c`.", [("run ", False), ("a b", True), (", then ", False), ("c", True), (".", False)]),
        ("`whole`", [("whole", True)]),
        ("over\n`two\nlines`", [("over\n", False), ("two\nlines", True)]),
        ("a lone ` stays", [("a lone ` stays", False)]),
        ("`a` and ` more", [("a", True), (" and ` more", False)]),
        ("nothing: ``", [("nothing: ``", False)]),
        ("``two`` are not one", [("``two`` are not one", False)]),
        ("`a``b`", [("`a``b`", False)]),  # Markdown reads this otherwise than as two
    ],
)
def test_code_in_a_sentence(sentence: str, parts: list[tuple[str, bool]]) -> None:
    assert list(spans(sentence)) == parts


def test_a_row_that_does_not_fit_is_refused() -> None:
    with pytest.raises(ValueError, match="a row of 1 cells under a header of 2"):
        Table(["a", "b"], [["x"]])
