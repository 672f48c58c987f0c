"""Rows of csv, tsv, jsonl and parquet: the right column, and each kind of bad row with its line."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import pytest
from tests.refusals import refused

from glassformer.data.reading import readers
from glassformer.data.reading.tables import Column, Layout, cells, column_names, layout_of
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

    def test_quotes_in_a_tsv_file_get_a_remedy(self, tmp_path: Path) -> None:
        file = write(tmp_path, 'text\tlabel\n"one\ntwo"\tx\n', "t.tsv")
        with refused(DataError, "quoted-tsv", ".csv"):
            rows(file, "tsv", "text")


class TestLayout:
    """Tables as spreadsheets write them: the separator and the encoding are found, not asked for."""

    COLUMNS: ClassVar = {"text_column": "message", "label_column": "category"}

    def rows(self, file: Path, kind: str = "csv") -> list[tuple[str, ...]]:
        return [values for _, values in cells(file, kind, self.COLUMNS)]  # type: ignore[arg-type]

    @pytest.mark.parametrize("delimiter", [";", "\t", "|", ","])
    def test_the_separator(self, delimiter: str, tmp_path: Path) -> None:
        file = tmp_path / "t.csv"
        with file.open("w", newline="") as stream:
            writer = csv.writer(stream, delimiter=delimiter)
            writer.writerows([["id", "message", "category"], ["1", "late, and\nwet; a | b", "post"], ["2", 'a "dog"', "pets"]])
        assert layout_of(file).delimiter == delimiter
        assert self.rows(file) == [("late, and\nwet; a | b", "post"), ('a "dog"', "pets")]

    @pytest.mark.parametrize("first", ["sep=;\r\n", '"sep=;"\n', "SEP=;\n"])
    def test_a_line_that_names_the_separator_is_no_header(self, first: str, tmp_path: Path) -> None:
        """Spreadsheets write and read it; the lines keep their numbers."""
        file = write(tmp_path, f"{first}message;category\nlate, wet;post\n", "t.csv")
        assert layout_of(file) == Layout(";", says_so=True)
        assert column_names(file, "csv") == ["message", "category"]
        assert list(cells(file, "csv", {"text_column": "message"})) == [(3, ("late, wet",))]

    @pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
    def test_utf_16_without_a_mark(self, encoding: str, tmp_path: Path) -> None:
        file = write(tmp_path, "id,message,category\n1,größer,post\n".encode(encoding), "t.csv")
        assert layout_of(file).encoding == encoding
        assert self.rows(file) == [("größer", "post")]

    def test_a_guessed_encoding_shows_a_word(self, tmp_path: Path) -> None:
        """What an old Mac wrote cannot be told from Windows-1252 by a rule; a reader can."""
        text = "id,message,category\n1,déjà vu café größer,post\n"
        assert layout_of(write(tmp_path, text.encode("cp1252"), "w.csv")).word == "déjà"
        mac = layout_of(write(tmp_path, text.encode("mac_roman"), "m.csv"))
        assert mac.word not in (None, "déjà")
        assert repr(mac.word) in str(mac.note("m.csv"))

    def test_white_space_around_a_name(self, tmp_path: Path) -> None:
        file = write(tmp_path, "id, message ,category \n1, late ,post\n", "t.csv")
        assert self.rows(file) == [(" late ", "post")]
        twins = write(tmp_path, "message , message\na,b\n", "u.csv")
        with refused(DataError, "no-text-column"):
            list(cells(twins, "csv", {"text_column": "message"}))

    def test_lines_that_end_in_carriage_returns_alone(self, tmp_path: Path) -> None:
        with refused(DataError, "not-csv", "carriage return"):
            self.rows(write(tmp_path, "id,message,category\r1,late,post\r", "t.csv"))

    def test_one_column_stays_one_column(self, tmp_path: Path) -> None:
        file = tmp_path / "t.csv"
        file.write_text("text\na; b\nc; d\n")
        assert layout_of(file) == Layout()
        assert [values for _, values in cells(file, "csv", {"text_column": None})] == [("a; b",), ("c; d",)]

    @pytest.mark.parametrize("encoding", ["cp1252", "utf-16", "utf-8-sig", "utf-8"])
    def test_the_encoding(self, encoding: str, tmp_path: Path) -> None:
        file = tmp_path / "t.csv"
        file.write_bytes("message;category\nschöne Grüße;naïve\n5 €;été\n".encode(encoding))
        assert self.rows(file) == [("schöne Grüße", "naïve"), ("5 €", "été")]
        assert layout_of(file).encoding == {"cp1252": "cp1252", "utf-16": "utf-16"}.get(encoding)
        assert (layout_of(file).note("t.csv") or "").count(encoding) == (encoding in ("cp1252", "utf-16"))

    def test_one_damaged_byte_is_no_encoding(self, tmp_path: Path) -> None:
        file = tmp_path / "t.csv"
        file.write_bytes("message,category\nGrüße,a\n".encode() + b"x\xffy,b\n")
        with refused(DataError, "not-utf8", "line 3"):
            self.rows(file)

    def test_parquet(self, tmp_path: Path) -> None:
        arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
        file = tmp_path / "t.parquet"
        columns = {"id": [1, 2], "message": ["hello", "world, again"], "category": [3, 4]}
        parquet.write_table(arrow.table(columns), file)
        assert self.rows(file, "parquet") == [("hello", "3"), ("world, again", "4")]
        assert column_names(file, "parquet") == ["id", "message", "category"]
        with refused(DataError, "no-text-column"):
            list(cells(file, "parquet", {"text_column": "massage"}))
        file.write_bytes(b"PAR1 and nothing else")
        with refused(DataError, "not-parquet"):
            self.rows(file, "parquet")
