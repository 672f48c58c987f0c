"""Rows of csv, tsv, jsonl and parquet: the right column, and each kind of bad row with its line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.refusals import refused

from glassformer.data.reading import readers
from glassformer.data.reading.tables import Column, cells, column_names
from glassformer.foundation.errors import DataError


def write(folder: Path, text: str | bytes, name: str = "a") -> Path:
    file = folder / name
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return file


def rows(file: Path, kind: Any, column: Column, *on_bad_row: Callable[[DataError], None]) -> list[tuple[int, str]]:
    return [(line, text) for line, (text,) in cells(file, kind, {"text_column": column}, *on_bad_row)]


class TestJsonl:
    def test_gives_the_column_and_the_lines(self, tmp_path: Path) -> None:
        file = write(tmp_path, '{"text": "one", "n": 1}\n\n{"n": 2, "text": "t\\nwo"}\n')
        assert rows(file, "jsonl", None) == [(1, "one"), (3, "t\nwo")]

    @pytest.mark.parametrize(
        ("line", "reason", "named"),
        [
            ("{oops}", "not-json", "line 2"),
            ("[1]", "not-an-object", "line 2"),
            ('{"body": "x"}', "no-text-column", "The columns are: body"),
            ('{"text": 5}', "not-text", "a number"),
            ('{"text": null}', "not-text", "null"),
            ('{"text": 1.5}', "not-text", "a number"),
            ('{"text": "a", "text": "b"}', "key-twice", "'text'"),
            ('{"text": "a\\u0000"}', "half-a-character", "line 2"),
            ('{"text": "a\\ud800"}', "half-a-character", "line 2"),
            ('{"text": ' + "[" * 100_000 + "}", "not-json", "nested too deeply"),
            ('{"text": ' + "9" * 5000 + "}", "not-json", "line 2"),
        ],
    )
    def test_a_bad_line_is_named(self, tmp_path: Path, line: str, reason: str, named: str) -> None:
        file = write(tmp_path, '{"text": "one"}\n' + line + "\n")
        with refused(DataError, reason, named) as caught:
            rows(file, "jsonl", None)
        assert caught.value.line == 2  # type: ignore[attr-defined]

    def test_bad_lines_can_be_passed_over(self, tmp_path: Path) -> None:
        file = write(tmp_path, b'{"text": "one"}\n{oops\n\xff\n{"text": "four"}\n')
        bad: list[DataError] = []
        assert rows(file, "jsonl", None, bad.append) == [(1, "one"), (4, "four")]
        assert [error.line for error in bad] == [2, 3]

    def test_a_misspelt_column_gets_the_nearest(self, tmp_path: Path) -> None:
        file = write(tmp_path, '{"passage": "one"}\n')
        with refused(DataError, "no-text-column", "Did you mean 'passage'"):
            rows(file, "jsonl", "pasage")

    def test_a_number_is_no_column(self, tmp_path: Path) -> None:
        with refused(DataError, "numbered-jsonl-column"):
            rows(write(tmp_path, "{}"), "jsonl", 1)


class TestCsv:
    def test_quotes_may_hold_commas_and_new_lines(self, tmp_path: Path) -> None:
        file = write(tmp_path, 'who,text\nA,"one, two"\nB,"three\nfour"\n\nC,five\n')
        assert rows(file, "csv", None) == [(2, "one, two"), (3, "three\nfour"), (6, "five")]

    def test_ragged_rows_are_named(self, tmp_path: Path) -> None:
        file = write(tmp_path, "who,text\nA,one\nB\nC,two,three\n")
        with refused(DataError, "other-number-of-columns", "line 3", "1 columns", "has 2"):
            rows(file, "csv", "text")
        bad: list[DataError] = []
        assert rows(file, "csv", "text", bad.append) == [(2, "one")]
        assert [error.line for error in bad] == [3, 4]

    def test_the_header_again_is_no_row(self, tmp_path: Path) -> None:
        """Of files joined by hand, each with its own header."""
        file = write(tmp_path, "who,text\nA,one\nwho,text\nB,two\n")
        with refused(DataError, "header-again", "line 3"):
            rows(file, "csv", "text")
        assert rows(file, "csv", 2) == [(1, "text"), (2, "one"), (3, "text"), (4, "two")]
        assert rows(write(tmp_path, "text\na\ntext\n"), "csv", None) == [(2, "a"), (3, "text")]  # it may well be a text

    def test_a_bad_header_is_not_passed_over(self, tmp_path: Path) -> None:
        with refused(DataError, "not-csv", "line 1"):
            rows(write(tmp_path, '"who" is,text\nA,one\n'), "csv", "text", lambda error: None)

    def test_a_missing_and_a_double_column(self, tmp_path: Path) -> None:
        with refused(DataError, "no-text-column", "line 1", "Did you mean 'text'?", "who, text"):
            rows(write(tmp_path, "who,text\nA,b\n"), "csv", "txt")
        with refused(DataError, "column-twice", "'text'"):
            rows(write(tmp_path, "text,text\nA,b\n"), "csv", "text")

    def test_a_quote_left_open_ends_at_the_limit(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(readers, "MAX_DOCUMENT", 200)
        file = write(tmp_path, 'text\n"never closed\n' + "more\n" * 100)
        with refused(DataError, "too-long", "line 2", "is a quote left open", "200 bytes"):
            rows(file, "csv", None)

    def test_broken_quotes_are_named_and_can_be_passed_over(self, tmp_path: Path) -> None:
        file = write(tmp_path, 'text\n"one"two\nthree\n')
        with refused(DataError, "not-csv", "line 2"):
            rows(file, "csv", None)
        assert rows(file, "csv", None, lambda error: None) == [(3, "three")]

    def test_rows_after_one_that_is_not_text_are_still_read(self, tmp_path: Path) -> None:
        file = write(tmp_path, b"text\none\nt\xffo\nthr\0e\nfour\n")
        bad: list[DataError] = []
        assert rows(file, "csv", None, bad.append) == [(2, "one"), (5, "four")]
        assert [error.line for error in bad] == [3, 4]

    def test_a_long_cell_is_not_refused_by_the_module_of_python(self, tmp_path: Path) -> None:
        file = write(tmp_path, "text\n" + "x" * 300_000 + "\n")  # its own limit is 131,072
        assert [len(text) for _, text in rows(file, "csv", None)] == [300_000]


class TestTsv:
    def test_quotes_are_just_signs(self, tmp_path: Path) -> None:
        file = write(tmp_path, 'label\ttext\n0\t"Yes, he said.\n1\tNo.\r\n')
        assert rows(file, "tsv", "text") == [(2, '"Yes, he said.'), (3, "No.")]

    def test_a_number_means_there_is_no_header(self, tmp_path: Path) -> None:
        file = write(tmp_path, "0\tone\n1\ttwo\n")
        assert rows(file, "tsv", 2) == [(1, "one"), (2, "two")]
        with refused(DataError, "no-text-column", "column 3", "1, 2"):
            rows(file, "tsv", 3)

    def test_numbers_beside_names_are_refused(self, tmp_path: Path) -> None:
        file = write(tmp_path, "text\tlabel\none\t1\n")
        with refused(DataError, "names-and-numbers", "data.text_column=1", "data.label_column"):
            list(cells(file, "tsv", {"text_column": 1, "label_column": None}))

    def test_without_a_header_the_sentence_says_how(self, tmp_path: Path) -> None:
        with refused(DataError, "no-text-column", "a number, counted from 1"):
            rows(write(tmp_path, "0\tone\n"), "tsv", None)

    def test_ragged_rows_are_named(self, tmp_path: Path) -> None:
        with refused(DataError, "other-number-of-columns", "line 2", "3 columns", "has 2"):
            rows(write(tmp_path, "0\tone\n1\ttwo\tthree\n"), "tsv", 2)


def test_parquet(tmp_path: Path) -> None:
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    file, columns = tmp_path / "t.parquet", {"text_column": "message", "label_column": "category"}
    parquet.write_table(arrow.table({"id": [1, 2], "message": ["hello", "world, again"], "category": [3, 4]}), file)
    assert [values for _, values in cells(file, "parquet", columns)] == [("hello", "3"), ("world, again", "4")]
    assert column_names(file, "parquet") == ["id", "message", "category"]
    with refused(DataError, "no-text-column"):
        list(cells(file, "parquet", {"text_column": "massage"}))
    file.write_bytes(b"PAR1 and nothing else")
    with refused(DataError, "not-parquet"):
        list(cells(file, "parquet", columns))
