"""Whole tables: read and written again, in every format, with all columns."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import pytest
from tests.refusals import refused

from glassformer.data.reading.layouts import Layout
from glassformer.data.reading.whole_tables import WholeTable, table_writer
from glassformer.foundation.errors import DataError

ROWS: list[dict[str, Any]] = [
    {"id": "1", "text": 'a "dog"; a\ncat', "more": ""},
    {"id": "2", "text": "ünï, code", "more": "x"},
    {"id": "3", "text": "", "more": "y"},
]


def write(file: Path, kind: Any, rows: list[dict[str, Any]], layout: Layout | None = None) -> None:
    with table_writer(file, kind, layout, list(rows[0])) as write_rows:
        for row in rows:
            write_rows([row])


@pytest.mark.parametrize(("kind", "size"), [("csv", 2), ("jsonl", 1), ("parquet", 2), ("csv", 5)])
def test_what_is_written_is_read(kind: Any, size: int, tmp_path: Path) -> None:
    if kind == "parquet":
        pytest.importorskip("pyarrow")
    file = tmp_path / f"t.{kind}"
    write(file, kind, ROWS)
    table = WholeTable(file, kind)
    pieces = list(table.pieces(size))
    assert table.names == ["id", "text", "more"]
    assert [len(piece) for piece in pieces] == [min(size, len(ROWS) - at) for at in range(0, len(ROWS), size)]
    assert [row for piece in pieces for row in piece] == ROWS
    assert list(tmp_path.iterdir()) == [file]


def test_the_separator_stays_and_a_file_without_a_header_has_numbers(tmp_path: Path) -> None:
    file = tmp_path / "t.csv"
    write(file, "csv", ROWS, Layout(";"))
    assert WholeTable(file, "csv").layout == Layout(";")
    numbered = WholeTable(file, "csv", numbered=True)
    assert numbered.names == ["1", "2", "3"]
    assert next(numbered.pieces(1))[0] == {"1": "id", "2": "text", "3": "more"}


@pytest.mark.parametrize("kind", ["csv", "jsonl", "tsv"])
def test_a_packed_name_is_a_packed_file(kind: Any, tmp_path: Path) -> None:
    file, rows = tmp_path / f"t.{kind}.gz", [{"id": "1", "text": "ünï"}, {"id": "2", "text": "b"}]
    write(file, kind, rows)
    with gzip.open(file) as packed:
        assert "ünï" in packed.read().decode()
    assert [row for piece in WholeTable(file, kind).pieces(9) for row in piece] == rows


def test_a_table_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    def fails() -> None:
        with table_writer(tmp_path / "t.csv", "csv", None, ["a"]) as write_rows:
            write_rows([{"a": 1}])
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fails()
    assert list(tmp_path.iterdir()) == []


def test_a_row_of_another_length_and_an_empty_file(tmp_path: Path) -> None:
    file = tmp_path / "t.csv"
    file.write_text("a,b\n1,2\n3\n")
    with refused(DataError, "other-number-of-columns", "line 3"):
        list(WholeTable(file, "csv").pieces(9))
    file.write_text("")
    with refused(DataError, "no-rows"):
        WholeTable(file, "csv")
