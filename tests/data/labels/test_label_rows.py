"""Labelled files are read once by a process, and again when anything about them is another."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from glassformer.data.labels.label_rows import rows_of
from glassformer.data.labels.label_sources import LabelSource
from glassformer.data.labels.labelled_texts import label_rows
from glassformer.foundation.errors import DataError


@pytest.fixture
def source(tmp_path: Path) -> LabelSource:
    label_rows._memory.clear()
    file = tmp_path / "a.csv"
    file.write_text("text,label,other\nthe cat,1,x\nthe dog,0,y\nthe hen,,z\n")
    return LabelSource("a", (file,), text_column="text", label_column="label", skip_bad_lines=True)


def test_read_once_and_again_when_the_file_or_the_way_of_reading_changes(source: LabelSource, monkeypatch) -> None:
    real, reads = label_rows.read_rows, []
    monkeypatch.setattr(label_rows, "read_rows", lambda *args, **more: reads.append(1) or real(*args, **more))
    rows, skipped = rows_of(source)
    assert [(row.text, row.label) for row in rows] == [("the cat", "1"), ("the dog", "0")]
    assert rows_of(source) == (rows, skipped)
    assert (skipped.count, len(reads)) == (1, 1)
    assert [row.label for row in rows_of(replace(source, label_column="other"))[0]] == ["x", "y", "z"]
    assert len(rows_of(replace(source, last=1))[0]) == 1
    source.files[0].write_text("text,label,other\nthe cow,1,x\n")
    assert [row.text for row in rows_of(source)[0]] == ["the cow"]
    assert len(reads) == 4


def test_a_file_that_changes_while_it_is_read_is_refused(source: LabelSource, monkeypatch) -> None:
    sums = iter("ab")
    monkeypatch.setattr(label_rows, "fingerprint_of", lambda _: next(sums))
    with pytest.raises(DataError, match="was written to while it was read"):
        rows_of(source)
