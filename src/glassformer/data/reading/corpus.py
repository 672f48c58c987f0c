"""Files -> documents, one after another, in bounded memory.

A document is a line, a block of lines, an article, a row of a table or a whole file; the documents of a text file, joined,
are the file. Blank lines belong to the document before them. Does not tokenize and does not split.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from glassformer.data.config import DocumentKind, FormatKind
from glassformer.data.reading.readers import LIMITS, Limits, lines, pieces, to_text, too_long
from glassformer.data.reading.tables import rows
from glassformer.foundation.errors import DataError

_ENDINGS: dict[str, FormatKind] = {".jsonl": "jsonl", ".ndjson": "jsonl", ".csv": "csv", ".tsv": "tsv"}

# ` = Title = ` is an article of wikitext; ` = = Section = = ` is inside one.
_ARTICLE = re.compile(rb" = [^=]+ = \r?\n?")


@dataclass(frozen=True, slots=True)
class Document:
    """A text and its location. ``continues``: the next chunk of the same document (whole files are read in chunks)."""

    text: str
    source: str
    line: int
    continues: bool = False


@dataclass(frozen=True)
class Source:
    """Files that are read in one way. ``name`` is as the user gave it."""

    name: str
    files: tuple[Path, ...]
    document: DocumentKind = "file"
    format: FormatKind | None = None
    text_column: str | int | None = None
    skip_bad_lines: bool = False

    def format_of(self, file: Path) -> FormatKind:
        return self.format or format_by_name(file)


@dataclass
class Skipped:
    """Skipped bad lines: their number, and the first few as sentences."""

    count: int = 0
    examples: list[str] = field(default_factory=list)

    def add(self, error: DataError) -> None:
        self.count += 1
        if len(self.examples) < 5:
            self.examples.append(str(error))


def format_by_name(file: Path) -> FormatKind:
    """The format by file extension (without ``.gz``); plain text if unknown."""
    name = file.with_suffix("") if file.suffix == ".gz" else file
    return _ENDINGS.get(name.suffix.lower(), "text")


def read(source: Source, limits: Limits = LIMITS, skipped: Skipped | None = None) -> Iterator[Document]:
    """The documents of all files, in order. Bad lines raise, or go to ``skipped`` when the source allows it."""
    refuse = _collector(skipped) if source.skip_bad_lines else _raise
    last: Document | None = None
    for file in source.files:
        if last is not None and not last.text.endswith("\n"):  # else two words would be joined
            last = replace(last, text=last.text + "\n")
        for document in _read_file(source, file, limits, refuse):
            if last is not None:
                yield last
            last = document
    if last is not None:
        yield last
    else:
        what = (
            "there is no text in it" if len(source.files) == 1 else f"there is no text in any of its {len(source.files)} files"
        )
        raise DataError(f"{what}; give a text that is not empty.", file=source.name)


def _raise(error: DataError) -> None:
    raise error


def _collector(skipped: Skipped | None) -> Callable[[DataError], None]:
    return (skipped or Skipped()).add


def _read_file(source: Source, file: Path, limits: Limits, refuse: Callable[[DataError], None]) -> Iterator[Document]:
    kind = source.format_of(file)
    if kind != "text":
        for line, text in rows(file, kind, source.text_column, limits, refuse):
            yield Document(text if text.endswith("\n") else text + "\n", str(file), line)
    elif source.document == "file":
        yield from _whole(file, limits)
    else:
        yield from _grouped(file, source.document, limits, refuse)


def _whole(file: Path, limits: Limits) -> Iterator[Document]:
    """One document in chunks; none for a file of white space only."""
    waiting: list[Document] = []  # white space before the first word
    begun = False
    for line, text in pieces(file, limits):
        document = Document(text, str(file), line, continues=bool(begun or waiting))
        if begun or not text.isspace():
            yield from waiting
            waiting.clear()
            yield document
            begun = True
        elif len(waiting) * len(text) < limits.document_bytes:
            waiting.append(document)
        else:
            raise too_long("the white space before the first word", file, 1, limits)


def _grouped(file: Path, kind: DocumentKind, limits: Limits, refuse: Callable[[DataError], None]) -> Iterator[Document]:
    """Groups lines into documents; blank lines belong to the document before them."""
    held: list[bytes] = []
    size, first, filled = 0, 1, False
    for number, line, begins in _beginnings(file, kind, limits):
        if filled and begins:
            yield from _finish(held, file, first, refuse)
            held, size, first, filled = [], 0, number, False
        held.append(line)
        size += len(line)
        if size > limits.document_bytes:
            raise too_long(f"the {kind} that begins here", file, first, limits)
        filled = filled or bool(line.strip())
    if filled:
        yield from _finish(held, file, first, refuse)


def _beginnings(file: Path, kind: DocumentKind, limits: Limits) -> Iterator[tuple[int, bytes, bool]]:
    """(number, line, whether a document may begin with it). A title of an article has a blank line on both sides."""
    blank_before = True
    title: tuple[int, bytes] | None = None
    for number, line in lines(file, limits):
        blank = not line.strip()
        if title is not None:
            yield *title, blank
            title = None
        if kind == "article" and blank_before and _ARTICLE.fullmatch(line):
            title = (number, line)
        else:
            yield number, line, not blank and (kind == "line" or (kind == "block" and blank_before))
        blank_before = blank
    if title is not None:
        yield *title, False


def _finish(held: Iterable[bytes], file: Path, first: int, refuse: Callable[[DataError], None]) -> Iterator[Document]:
    try:
        text = to_text(b"".join(held), file, first)
    except DataError as error:
        refuse(error)
        return
    yield Document(text, str(file), first)
