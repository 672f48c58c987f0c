"""Files to documents: kinds of document on paper, nothing lost, empty and blank files refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.refusals import refused

from glassformer.data.reading import readers
from glassformer.data.reading.corpus import Document, Skipped, Source, format_by_name, read
from glassformer.foundation.errors import DataError

TEXT = "\none\ntwo\n\n \nthree\nfour\n\nfive"


@pytest.fixture
def source(tmp_path: Path) -> Source:
    file = tmp_path / "a.txt"
    file.write_text(TEXT)
    return Source("a", (file,))


def texts(source: Source) -> list[tuple[int, str]]:
    return [(document.line, document.text) for document in read(source)]


def test_lines_keep_their_newline_and_the_blank_lines_after_them(source: Source) -> None:
    found = texts(replace(source, document="line"))
    assert found == [(1, "\none\n"), (3, "two\n\n \n"), (6, "three\n"), (7, "four\n\n"), (9, "five")]


def test_blocks_end_with_their_blank_lines(source: Source) -> None:
    assert texts(replace(source, document="block")) == [(1, "\none\ntwo\n\n \n"), (6, "three\nfour\n\n"), (9, "five")]


def test_a_file_is_one_document(source: Source) -> None:
    assert texts(source) == [(1, TEXT)]


def test_a_large_file_is_one_document_in_pieces(source: Source, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readers, "PIECE_BYTES", 7)
    found = list(read(source))
    assert [document.continues for document in found] == [False] + [True] * (len(found) - 1)
    assert len(found) > 2
    assert "".join(document.text for document in found) == TEXT


def test_articles_begin_with_a_title_between_blank_lines(tmp_path: Path) -> None:
    file = tmp_path / "w.txt"
    text = " \n = One = \n \n a \n = not = \n b \n \n = = Section = = \n \n c \n \n = also not = \n d \n \n = Two = \n \n e \n"
    file.write_text(text)
    found = texts(Source("w", (file,), document="article"))
    assert [line for line, _ in found] == [1, 15]
    assert "".join(part for _, part in found) == text


@settings(deadline=None, max_examples=80)
@given(
    text=st.text(st.sampled_from("ab \t\r\n=é"), min_size=1, max_size=60),
    kind=st.sampled_from(["line", "block", "file", "article"]),
)
def test_documents_joined_are_the_file(tmp_path_factory: pytest.TempPathFactory, text: str, kind: str) -> None:
    file = tmp_path_factory.mktemp("t") / "a.txt"
    file.write_bytes(text.encode())
    source = Source("a", (file,), document=kind)  # type: ignore[arg-type]
    if not text.strip():
        with refused(DataError, "no-text"):
            list(read(source))
        return
    assert "".join(document.text for document in read(source)) == text


@pytest.mark.parametrize("content", ["", "\n \n\t\n"])
@pytest.mark.parametrize("kind", ["line", "block", "file", "article"])
def test_an_empty_or_blank_file_is_refused(tmp_path: Path, content: str, kind: str) -> None:
    file = tmp_path / "a.txt"
    file.write_text(content)
    with refused(DataError, "no-text"):
        list(read(Source("a", (file,), document=kind)))  # type: ignore[arg-type]


def test_rows_of_a_table_are_documents_whatever_the_kind(tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    file.write_text('{"text": "one"}\n{"text": "two\\n"}\n')
    assert texts(Source("a", (file,), document="block")) == [(1, "one\n"), (2, "two\n")]


def test_files_do_not_touch(tmp_path: Path) -> None:
    files = []
    for number, text in enumerate(["one", "two\n", "three"]):
        files.append(tmp_path / f"{number}.txt")
        files[-1].write_text(text)
    found = list(read(Source("a", tuple(files))))
    assert found == [
        Document("one\n", str(files[0]), 1),
        Document("two\n", str(files[1]), 1),
        Document("three", str(files[2]), 1),
    ]


def test_a_block_without_end_is_refused_where_it_begins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readers, "MAX_DOCUMENT", 100)
    file = tmp_path / "a.txt"
    file.write_text("one\n\n" + "two\n" * 50)
    with refused(DataError, "too-long", "a.txt, line 3", "block", "100 bytes"):
        list(read(Source("a", (file,), document="block")))


def test_bad_lines_are_collected_when_allowed(tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    file.write_bytes(b"one\nt\xffo\nthree\n")
    source = Source("a", (file,), document="line", skip_bad_lines=True)
    skipped = Skipped()
    assert [document.text for document in read(source, skipped=skipped)] == ["one\n", "three\n"]
    assert skipped.count == 1
    assert "line 2: the byte 0xff" in skipped.examples[0]
    with refused(DataError, "not-utf8", "line 2"):
        list(read(replace(source, skip_bad_lines=False)))


@pytest.mark.parametrize(
    ("name", "kind"),
    [("a.txt", "text"), ("a", "text"), ("a.JSONL", "jsonl"), ("a.ndjson.gz", "jsonl"), ("b.csv", "csv"), ("b.tsv.gz", "tsv")],
)
def test_formats_by_name(name: str, kind: str) -> None:
    assert format_by_name(Path(name)) == kind
