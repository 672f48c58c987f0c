"""How csv and tsv files are written: separators, quotes and encodings are found, not asked for."""

from __future__ import annotations

import csv
import gzip
import io
from pathlib import Path
from typing import Any, ClassVar

import pytest
from tests.refusals import refused

from glassformer.data.reading import layouts
from glassformer.data.reading.layouts import Layout, layout_of
from glassformer.data.reading.tables import cells, column_names
from glassformer.foundation.errors import DataError


def write(folder: Path, text: str | bytes, name: str = "t.csv") -> Path:
    file = folder / name
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return file


class TestCsv:
    """As spreadsheets write them."""

    COLUMNS: ClassVar = {"text_column": "message", "label_column": "category"}

    def rows(self, file: Path) -> list[tuple[str, ...]]:
        return [values for _, values in cells(file, "csv", self.COLUMNS)]

    @pytest.mark.parametrize("delimiter", [";", "\t", "|", ","])
    def test_the_separator(self, delimiter: str, tmp_path: Path) -> None:
        file = tmp_path / "t.csv"
        with file.open("w", newline="") as stream:
            writer = csv.writer(stream, delimiter=delimiter)
            writer.writerows([["id", "message", "category"], ["1", "late, and\nwet; a | b", "post"], ["2", 'a "dog"', "pets"]])
        assert layout_of(file, "csv").delimiter == delimiter
        assert self.rows(file) == [("late, and\nwet; a | b", "post"), ('a "dog"', "pets")]

    @pytest.mark.parametrize("first", ["sep=;\r\n", '"sep=;"\n', "SEP=;\n"])
    def test_a_line_that_names_the_separator_is_no_header(self, first: str, tmp_path: Path) -> None:
        """Spreadsheets write and read it; the lines keep their numbers."""
        file = write(tmp_path, f"{first}message;category\nlate, wet;post\n", "t.csv")
        assert layout_of(file, "csv") == Layout(";", says_so=True)
        assert column_names(file, "csv") == ["message", "category"]
        assert list(cells(file, "csv", {"text_column": "message"})) == [(3, ("late, wet",))]

    @pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
    def test_utf_16_without_a_mark(self, encoding: str, tmp_path: Path) -> None:
        file = write(tmp_path, "id,message,category\n1,größer,post\n".encode(encoding), "t.csv")
        assert layout_of(file, "csv").encoding == encoding
        assert self.rows(file) == [("größer", "post")]

    def test_a_guessed_encoding_shows_a_word(self, tmp_path: Path) -> None:
        """What an old Mac wrote cannot be told from Windows-1252 by a rule; a reader can."""
        text = "id,message,category\n1,déjà vu café größer,post\n"
        assert layout_of(write(tmp_path, text.encode("cp1252"), "w.csv"), "csv").word == "déjà"
        mac = layout_of(write(tmp_path, text.encode("mac_roman"), "m.csv"), "csv")
        assert mac.word not in (None, "déjà")
        assert repr(mac.word) in str(mac.note("m.csv", "csv"))

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
        assert layout_of(file, "csv") == Layout()
        assert [values for _, values in cells(file, "csv", {"text_column": None})] == [("a; b",), ("c; d",)]

    @pytest.mark.parametrize("encoding", ["cp1252", "utf-16", "utf-8-sig", "utf-8"])
    def test_the_encoding(self, encoding: str, tmp_path: Path) -> None:
        file = tmp_path / "t.csv"
        file.write_bytes("message;category\nschöne Grüße;naïve\n5 €;été\n".encode(encoding))
        assert self.rows(file) == [("schöne Grüße", "naïve"), ("5 €", "été")]
        assert layout_of(file, "csv").encoding == {"cp1252": "cp1252", "utf-16": "utf-16"}.get(encoding)
        assert (layout_of(file, "csv").note("t.csv", "csv") or "").count(encoding) == (encoding in ("cp1252", "utf-16"))

    def test_one_damaged_byte_is_no_encoding(self, tmp_path: Path) -> None:
        file = tmp_path / "t.csv"
        file.write_bytes("message,category\nGrüße,a\n".encode() + b"x\xffy,b\n")
        with refused(DataError, "not-utf8", "line 3"):
            self.rows(file)

    def test_packed_files_have_encodings_too(self, tmp_path: Path) -> None:
        for encoding in ("cp1252", "utf-16"):
            file = write(
                tmp_path, gzip.compress("message;category\nschöne Grüße;naïve\n".encode(encoding)), f"{encoding}.csv.gz"
            )
            assert self.rows(file) == [("schöne Grüße", "naïve")]

    @pytest.mark.parametrize("encoding", ["cp1251", "koi8-r", "cp1253"])
    def test_another_script_is_not_read_as_western_letters(self, encoding: str, tmp_path: Path) -> None:
        texts = {"cp1253": "το δέμα άργησε να έρθει"}
        file = write(tmp_path, f"message,category\n{texts.get(encoding, 'посылка пришла поздно')},a\n".encode(encoding))
        with refused(DataError, "not-utf8", "line 2"):
            self.rows(file)

    def test_french_quotes_are_not_utf_8(self, tmp_path: Path) -> None:
        """A letter, a no-break space and a closing quote happen to be three bytes of UTF-8."""
        file = write(tmp_path, "message,category\n«\u00a0voilà\u00a0»,é\n".encode("cp1252"))
        assert self.rows(file) == [("«\u00a0voilà\u00a0»", "é")]

    def test_two_encodings_in_one_file(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(layouts, "_SAMPLE", 40)
        begins = "message,category\nschöne Grüße für,a\n" + "x,b\n" * 20
        file = write(tmp_path, begins.encode("cp1252") + "Straße,b\n".encode())
        with refused(DataError, "two-encodings", "line 23"):
            self.rows(file)
        with refused(DataError, "not-utf8", "line 23", "0x81"):
            self.rows(write(tmp_path, begins.encode("cp1252") + b"\x81,b\n", "u.csv"))

    def test_marks_where_files_were_joined(self, tmp_path: Path) -> None:
        file = write(tmp_path, "\ufeffmessage,category\na,x\n\ufeffb,y\n")
        assert self.rows(file) == [("a", "x"), ("b", "y")]

    def test_spaces_before_quotes(self, tmp_path: Path) -> None:
        """Only where there are such quotes; else a space belongs to its cell."""
        file = write(tmp_path, 'message, category\n "late, wet", "post"\n  dry, "mail, too"\n')
        assert layout_of(file, "csv") == Layout(spaced=True)
        assert self.rows(file) == [("late, wet", "post"), ("dry", "mail, too")]


class TestTsv:
    def rows(self, text: str, folder: Path) -> list[tuple[str, ...]]:
        file = write(folder, text, "t.tsv")
        return [values for _, values in cells(file, "tsv", {"text_column": None, "label_column": None})]

    @pytest.mark.parametrize(
        "text",
        [
            'text\tlabel\n"Yes," he said. "No."\tx\n"Why?"\ty\n',
            'text\tlabel\n"Yes."\tx\nNo.\ty\n',
            'text\tlabel\nten " wide\tx\n"\ty\n',
        ],
    )
    def test_quotes_are_signs_of_the_text(self, text: str, tmp_path: Path) -> None:
        assert self.rows(text, tmp_path) == [tuple(line.split("\t")) for line in text.splitlines()[1:]]
        assert layout_of(tmp_path / "t.tsv", "tsv").note("t.tsv", "tsv") is None

    @pytest.mark.parametrize("cell", ['he said "no"', "a\ttab", "two\nlines"])
    @pytest.mark.parametrize("quoting", [csv.QUOTE_MINIMAL, csv.QUOTE_ALL])
    def test_quotes_stand_around_cells_as_pandas_writes_them(self, cell: str, quoting: Any, tmp_path: Path) -> None:
        stream = io.StringIO()
        csv.writer(stream, delimiter="\t", quoting=quoting).writerows([["text", "label"], ["plain", "x"], [cell, "y"]])
        assert self.rows(stream.getvalue(), tmp_path) == [("plain", "x"), (cell, "y")]
        assert "quotes" in str(layout_of(tmp_path / "t.tsv", "tsv").note("t.tsv", "tsv"))

    def test_one_row_of_another_width_makes_no_quotes(self, tmp_path: Path) -> None:
        with refused(DataError, "other-number-of-columns", "line 3"):
            self.rows('text\tlabel\n"Yes."\tx\ny\n', tmp_path)
        assert not layout_of(tmp_path / "t.tsv", "tsv").quoted

    def test_the_sample_may_end_inside_quotes(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        text = "text\tlabel\n" + "".join(f'"a {at}\nb"\tx\n' for at in range(30))
        for size in range(60, 90):
            monkeypatch.setattr(layouts, "_SAMPLE", size)
            layouts._layout.cache_clear()
            assert self.rows(text, tmp_path) == [(f"a {at}\nb", "x") for at in range(30)]
