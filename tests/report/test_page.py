"""Cells as text, numeric columns, rows that do not fit."""

from __future__ import annotations

import pytest

from glassformer.foundation.estimate import Estimate
from glassformer.report.page import Table, cell_text


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


def test_a_row_that_does_not_fit_is_refused() -> None:
    with pytest.raises(ValueError, match="a row of 1 cells under a header of 2"):
        Table(["a", "b"], [["x"]])
