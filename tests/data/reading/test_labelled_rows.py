"""Labelled rows: columns, formats, and each kind of bad row with its file and line."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.refusals import refused

from glassformer.data.reading.corpus import LabelSource, Skipped, read_rows
from glassformer.data.reading.named_sets import labelled_files
from glassformer.foundation.errors import DataError


def write(folder: Path, text: str, name: str) -> Path:
    file = folder / name
    file.write_text(text, encoding="utf-8")
    return file


def read(file: Path, **settings: object) -> list[tuple[str, str | None, str | None, int]]:
    source = LabelSource("given", (file,), **settings)  # type: ignore[arg-type]
    return [(row.text, row.pair, row.label, row.line) for row in read_rows(source)]


def test_every_format_gives_the_same_rows(tmp_path: Path) -> None:
    expected = [("good film", None, "1", 1), ("bad film", None, "0", 2)]
    assert read(write(tmp_path, "1 good film\n0 bad film\n", "a.txt"), format="label-text") == expected
    assert read(write(tmp_path, "1\tgood film\n0\tbad film\n", "a.tsv"), text_column=2, label_column=1) == expected
    jsonl = '{"text": "good film", "label": 1}\n{"text": "bad film", "label": 0}\n'
    assert read(write(tmp_path, jsonl, "a.jsonl")) == expected
    named = read(write(tmp_path, "label,text\n1,good film\n0,bad film\n", "a.csv"))
    assert [row[:3] for row in named] == [row[:3] for row in expected]
    assert [row[3] for row in named] == [2, 3]


def test_a_pair_and_a_true_or_false_label(tmp_path: Path) -> None:
    file = write(tmp_path, '{"q": "is it", "p": "it is", "a": true}\n', "a.jsonl")
    assert read(file, text_column="q", pair_column="p", label_column="a") == [("is it", "it is", "true", 1)]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("1 good\n0\n", "line 2: the text is empty"),
        ("1 good\n0   \n", "line 2: the text is empty"),
    ],
)
def test_an_empty_text_is_named_with_its_line(tmp_path: Path, text: str, said: str) -> None:
    with refused(DataError, "empty-cell", said):
        read(write(tmp_path, text, "a.txt"), format="label-text")


def test_an_empty_label_and_a_missing_column(tmp_path: Path) -> None:
    with refused(DataError, "empty-cell", "line 2"):
        read(write(tmp_path, "a\t1\nb\t\n", "a.tsv"), text_column=1, label_column=2)
    with refused(DataError, "no-label-column", "'label'", "data.label_column"):
        read(write(tmp_path, '{"text": "x", "lable": 1}\n', "a.jsonl"))


def test_plain_text_has_no_columns(tmp_path: Path) -> None:
    with refused(DataError, "no-columns", "data.format"):
        read(write(tmp_path, "1 good\n", "a.txt"))


def test_bad_rows_can_be_passed_over(tmp_path: Path) -> None:
    skipped = Skipped()
    source = LabelSource("g", (write(tmp_path, "1 a\n0\n1 c\n", "a.txt"),), format="label-text", skip_bad_lines=True)
    assert [row.text for row in read_rows(source, skipped)] == ["a", "c"]
    assert skipped.count == 1


def test_the_rest_of_the_training_file_is_a_test(tmp_path: Path) -> None:
    write(tmp_path, "".join(f"{n % 2} text {n}\n" for n in range(7)), "train.txt")
    parts = labelled_files("train.txt", {}, names={}, format="label-text", train_rows=5).located(tmp_path, "set")
    assert [row.text for row in read_rows(parts.train)] == [f"text {n}" for n in range(5)]
    assert [row.line for row in read_rows(parts.tests["rest"])] == [6, 7]
