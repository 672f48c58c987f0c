"""Rows of jsonl, csv and tsv: the right column, and each kind of bad row with its line."""

from __future__ import annotations

from pathlib import Path

import pytest

from glassformer.data.reading.readers import Limits
from glassformer.data.reading.tables import cells, rows
from glassformer.foundation.errors import DataError


def write(folder: Path, text: str | bytes, name: str = "a") -> Path:
    file = folder / name
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return file


class TestJsonl:
    def test_gives_the_column_and_the_lines(self, tmp_path: Path) -> None:
        file = write(tmp_path, '{"text": "one", "n": 1}\n\n{"n": 2, "text": "t\\nwo"}\n')
        assert list(rows(file, "jsonl", None)) == [(1, "one"), (3, "t\nwo")]

    @pytest.mark.parametrize(
        ("line", "said"),
        [
            ("{oops}", "line 2: is not JSON"),
            ("[1]", "line 2: is JSON but not an object"),
            ('{"body": "x"}', "line 2: there is no column 'text'. The columns are: body"),
            ('{"text": 5}', "the value of 'text' is a number, not text; put it in quotes"),
            ('{"text": null}', "the value of 'text' is null, not text; fill it in or remove the row"),
            ('{"text": 1.5}', "is a number, not text; put it in quotes"),
            ('{"text": "a", "text": "b"}', "the key 'text' is given twice"),
            ('{"text": "a\\u0000"}', "NUL or half a character"),
            ('{"text": "a\\ud800"}', "NUL or half a character"),
            ('{"text": ' + "[" * 100_000 + "}", "nested too deeply"),
            ('{"text": ' + "9" * 5000 + "}", "is not JSON|is a number"),
        ],
    )
    def test_a_bad_line_is_named(self, tmp_path: Path, line: str, said: str) -> None:
        file = write(tmp_path, '{"text": "one"}\n' + line + "\n")
        with pytest.raises(DataError, match=said) as caught:
            list(rows(file, "jsonl", None))
        assert caught.value.line == 2

    def test_bad_lines_can_be_passed_over(self, tmp_path: Path) -> None:
        file = write(tmp_path, b'{"text": "one"}\n{oops\n\xff\n{"text": "four"}\n')
        refused: list[DataError] = []
        assert list(rows(file, "jsonl", None, refuse=refused.append)) == [(1, "one"), (4, "four")]
        assert [error.line for error in refused] == [2, 3]

    def test_a_misspelt_column_gets_the_nearest(self, tmp_path: Path) -> None:
        file = write(tmp_path, '{"passage": "one"}\n')
        with pytest.raises(DataError, match="Did you mean 'passage'"):
            list(rows(file, "jsonl", "pasage"))

    def test_a_number_is_no_column(self, tmp_path: Path) -> None:
        with pytest.raises(DataError, match="the columns of a jsonl file have names"):
            list(rows(write(tmp_path, "{}"), "jsonl", 1))


class TestCsv:
    def test_quotes_may_hold_commas_and_new_lines(self, tmp_path: Path) -> None:
        file = write(tmp_path, 'who,text\nA,"one, two"\nB,"three\nfour"\n\nC,five\n')
        assert list(rows(file, "csv", None)) == [(2, "one, two"), (3, "three\nfour"), (6, "five")]

    def test_ragged_rows_are_named(self, tmp_path: Path) -> None:
        file = write(tmp_path, "who,text\nA,one\nB\nC,two,three\n")
        with pytest.raises(DataError, match="line 3: the row has 1 columns, but the first row has 2"):
            list(rows(file, "csv", "text"))
        refused: list[DataError] = []
        assert list(rows(file, "csv", "text", refuse=refused.append)) == [(2, "one")]
        assert [error.line for error in refused] == [3, 4]

    def test_a_missing_and_a_double_column(self, tmp_path: Path) -> None:
        with pytest.raises(
            DataError, match=r"line 1: there is no column 'txt'. Did you mean 'text'\? The columns are: who, text"
        ):
            list(rows(write(tmp_path, "who,text\nA,b\n"), "csv", "txt"))
        with pytest.raises(DataError, match="has the column 'text' twice"):
            list(rows(write(tmp_path, "text,text\nA,b\n"), "csv", "text"))

    def test_a_quote_left_open_ends_at_the_limit(self, tmp_path: Path) -> None:
        file = write(tmp_path, 'text\n"never closed\n' + "more\n" * 100)
        with pytest.raises(DataError, match=r"line 2: the row .is a quote left open.* is longer than 200 bytes"):
            list(rows(file, "csv", None, Limits(document_bytes=200)))

    def test_broken_quotes_are_named_and_can_be_passed_over(self, tmp_path: Path) -> None:
        file = write(tmp_path, 'text\n"one"two\nthree\n')
        with pytest.raises(DataError, match="line 2: is not valid csv"):
            list(rows(file, "csv", None))
        assert list(rows(file, "csv", None, refuse=lambda error: None)) == [(3, "three")]

    def test_rows_after_one_that_is_not_text_are_still_read(self, tmp_path: Path) -> None:
        file = write(tmp_path, b"text\none\nt\xffo\nthr\0e\nfour\n")
        refused: list[DataError] = []
        assert list(rows(file, "csv", None, refuse=refused.append)) == [(2, "one"), (5, "four")]
        assert [error.line for error in refused] == [3, 4]

    def test_a_long_cell_is_not_refused_by_the_module_of_python(self, tmp_path: Path) -> None:
        file = write(tmp_path, "text\n" + "x" * 300_000 + "\n")  # its own limit is 131,072
        assert [len(text) for _, text in rows(file, "csv", None)] == [300_000]


class TestTsv:
    def test_quotes_are_just_signs(self, tmp_path: Path) -> None:
        file = write(tmp_path, 'label\ttext\n0\t"Yes, he said.\n1\tNo.\r\n')
        assert list(rows(file, "tsv", "text")) == [(2, '"Yes, he said.'), (3, "No.")]

    def test_a_number_means_there_is_no_header(self, tmp_path: Path) -> None:
        file = write(tmp_path, "0\tone\n1\ttwo\n")
        assert list(rows(file, "tsv", 2)) == [(1, "one"), (2, "two")]
        with pytest.raises(DataError, match=r"there is no column 3. The columns are: 1, 2"):
            list(rows(file, "tsv", 3))

    def test_numbers_beside_names_are_refused(self, tmp_path: Path) -> None:
        file = write(tmp_path, "text\tlabel\none\t1\n")
        with pytest.raises(DataError, match=r"data.text_column=1 is a number.* data.label_column is the name 'label'; give"):
            list(cells(file, "tsv", {"text_column": 1, "label_column": None}))

    def test_without_a_header_the_sentence_says_how(self, tmp_path: Path) -> None:
        with pytest.raises(DataError, match="a number, counted from 1, when the file has no header"):
            list(rows(write(tmp_path, "0\tone\n"), "tsv", None))

    def test_ragged_rows_are_named(self, tmp_path: Path) -> None:
        with pytest.raises(DataError, match="line 2: the row has 3 columns, but the first row has 2"):
            list(rows(write(tmp_path, "0\tone\n1\ttwo\tthree\n"), "tsv", 2))
