"""Files -> documents, or rows of labelled texts, one after another, in bounded memory.

A document is a line, a block of lines, an article, a row of a table or a whole file; the documents of a text file, joined,
are the file. Blank lines belong to the document before them. A row of a labelled file has a text, perhaps a second one (a
pair), and a label as it stands in the file; a row of a file of pairs has a source and a target. Does not tokenize, does not
split, does not know which labels there may be.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice, zip_longest
from pathlib import Path
from sys import intern
from typing import Literal, NamedTuple

from glassformer.data.config import DocumentKind, FormatKind
from glassformer.data.reading.layouts import layout_of
from glassformer.data.reading.readers import lines, pieces, require_size, to_text
from glassformer.data.reading.tables import BETWEEN, Column, cells, raise_error
from glassformer.foundation.errors import DataError

_ENDINGS: dict[str, FormatKind] = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".csv": "csv",
    ".tsv": "tsv",
    ".parquet": "parquet",
}

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
    text_column: Column = None
    skip_bad_lines: bool = False

    def format_of(self, file: Path) -> FormatKind:
        return self.format or format_by_name(file)


class Row(NamedTuple):
    """One labelled text and its location. ``label`` is None in a file without labels."""

    text: str
    pair: str | None
    label: str | None
    """Several labels of one text have ``BETWEEN`` between them."""
    file: Path
    line: int


Target = Literal["class", "several", "number"]
"""What a text is labelled with: one label, any number of labels, or a number."""
_CELLS = {"text_column": "text", "pair_column": "second text", "label_column": "label"}
_CHOSEN = {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False, "": False}
"""The cells of a column that stands for one of several labels."""


@dataclass(frozen=True)
class LabelSource:
    """Files of labelled texts that are read in one way. ``first`` and ``last`` limit the rows, counted over all files."""

    name: str
    files: tuple[Path, ...]
    format: FormatKind | None = None
    text_column: Column = None
    pair_column: Column = None
    label_column: Column | tuple[str, ...] = None
    labelled: bool = True
    first: int = 0
    last: int | None = None
    skip_bad_lines: bool = False
    target: Target = "class"
    separator: str = ";"

    @property
    def reading(self) -> dict[str, object]:
        """How the files are read, as plain values: with the files' bytes this determines the rows."""
        names = ("format", "text_column", "pair_column", "label_column", "labelled", "first", "last")
        several = {"separator": self.separator} if self.target == "several" else {}
        return {name: getattr(self, name) for name in names} | several


class PairRow(NamedTuple):
    """A source with its target, and their location."""

    source: str
    target: str
    file: Path
    line: int


@dataclass(frozen=True)
class PairSource:
    """Tables of pairs of texts; or, if ``parallel``, two text files whose lines belong together, the source's first."""

    name: str
    files: tuple[Path, ...]
    parallel: bool = False
    format: FormatKind | None = None
    source_column: Column = None
    target_column: Column = None
    skip_bad_lines: bool = False

    @property
    def reading(self) -> dict[str, object]:
        """How the files are read, as plain values: with the files' bytes this determines the pairs."""
        names = ("parallel", "format", "source_column", "target_column")
        return {name: getattr(self, name) for name in names}


@dataclass
class Skipped:
    """Skipped bad lines: their number, and the first few as sentences."""

    count: int = 0
    examples: list[str] = field(default_factory=list)

    def add(self, error: DataError) -> None:
        self.count += 1
        if len(self.examples) < 5:
            self.examples.append(str(error))

    @property
    def notes(self) -> list[str]:
        """A sentence, where lines were left out."""
        if not self.count:
            return []
        lines = "1 bad line was" if self.count == 1 else f"{self.count:,} bad lines were"
        return [f"{lines} left out, as data.bad_lines: skip allows. First: {' | '.join(self.examples)}"]


def format_by_name(file: Path) -> FormatKind:
    """The format by file extension (without ``.gz``); plain text if unknown."""
    name = file.with_suffix("") if file.suffix == ".gz" else file
    return _ENDINGS.get(name.suffix.lower(), "text")


def layout_notes(source: Source | LabelSource) -> list[str]:
    """Which separators, quotes and encodings were found in csv and tsv files, where they are not the usual ones."""
    found = []
    for file in source.files:
        kind = source.format or format_by_name(file)
        if kind in ("csv", "tsv"):
            found.append(layout_of(file, kind).note(file.name, kind))
    return [note for note in found if note is not None]


def read(source: Source, skipped: Skipped | None = None) -> Iterator[Document]:
    """The documents of all files, in order. Bad lines raise, or go to ``skipped`` when the source allows it."""
    on_bad_line = (skipped or Skipped()).add if source.skip_bad_lines else raise_error
    last: Document | None = None
    for file in source.files:
        if last is not None and not last.text.endswith("\n"):  # else two words would be joined
            last = replace(last, text=last.text + "\n")
        for document in _read_file(source, file, on_bad_line):
            if last is not None:
                yield last
            last = document
    if last is None:
        where = "it" if len(source.files) == 1 else f"any of its {len(source.files)} files"
        rule = f"there is no text in {where}; give a text that is not empty."
        raise DataError(rule, file=source.name, reason="no-text")
    yield last


def _read_file(source: Source, file: Path, on_bad_line: Callable[[DataError], None]) -> Iterator[Document]:
    kind = source.format_of(file)
    if kind != "text":
        for line, (text,) in cells(file, kind, {"text_column": source.text_column}, on_bad_line):
            yield Document(text if text.endswith("\n") else text + "\n", str(file), line)
    elif source.document == "file":
        yield from _whole(file)
    else:
        for first, data in _grouped(file, source.document):
            try:
                document = Document(to_text(data, file, first), str(file), first)
            except DataError as error:
                on_bad_line(error)
            else:
                yield document


def _whole(file: Path) -> Iterator[Document]:
    """One document in chunks; none for a file of white space only."""
    waiting: list[Document] = []  # white space before the first word
    begun = False
    for line, text in pieces(file):
        document = Document(text, str(file), line, continues=bool(begun or waiting))
        if begun or not text.isspace():
            yield from waiting
            waiting.clear()
            yield document
            begun = True
        else:
            require_size(len(waiting) * len(text) + 1, "the white space before the first word", file, 1)
            waiting.append(document)


def _grouped(file: Path, kind: DocumentKind) -> Iterator[tuple[int, bytes]]:
    """(first line, bytes) of each group of lines that is a document; blank lines belong to the document before them."""
    group: list[bytes] = []
    size, first, filled = 0, 1, False
    for number, line, begins in _beginnings(file, kind):
        if filled and begins:
            yield first, b"".join(group)
            group, size, first, filled = [], 0, number, False
        group.append(line)
        size += len(line)
        require_size(size, f"the {kind} that begins here", file, first)
        filled = filled or bool(line.strip())
    if filled:
        yield first, b"".join(group)


def article_lines(file: Path) -> list[int]:
    """The first line of each article of a text file."""
    return [first for first, _ in _grouped(file, "article")]


def _beginnings(file: Path, kind: DocumentKind) -> Iterator[tuple[int, bytes, bool]]:
    """(number, line, whether a document may begin with it). A title of an article has a blank line on both sides."""
    blank_before = True
    title: tuple[int, bytes] | None = None
    for number, line in lines(file):
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


def read_rows(source: LabelSource, skipped: Skipped | None = None) -> Iterator[Row]:
    """The labelled rows of all files, in order. Bad ones raise, or go to ``skipped`` when the source allows it."""
    on_bad_row = (skipped or Skipped()).add if source.skip_bad_lines else raise_error
    return islice(_all_rows(source, on_bad_row), source.first, source.last)


def _all_rows(source: LabelSource, on_bad_row: Callable[[DataError], None]) -> Iterator[Row]:
    columns: dict[str, Column] = {"text_column": source.text_column}
    if source.pair_column is not None:
        columns["pair_column"] = source.pair_column
    flags = source.label_column if isinstance(source.label_column, tuple) else ()
    if source.labelled:
        columns |= {f"label_column {name}": name for name in flags} or {"label_column": source.label_column}  # type: ignore[dict-item]
    for file in source.files:
        kind = source.format or format_by_name(file)
        if kind == "text":
            json = ".json" in file.suffixes
            rule = "is not read as a table by its name" if json else "has no columns for text and label"
            other = "write one JSON object a line and name it .jsonl (pandas: to_json(orient='records', lines=True))"
            remedy = other if json else "set data.format: label-text if each line is a label, a space and the text"
            raise DataError(f"{rule}; give a csv, tsv, jsonl or parquet file, or {remedy}.", file=file, reason="no-columns")
        for line, values in cells(file, kind, columns, on_bad_row):
            found = dict(zip(columns, (value.strip() for value in values)))
            may_be_empty = ("label_column",) if source.target == "several" else ()
            empty = next((key for key in _CELLS if found.get(key) == "" and key not in may_be_empty), None)
            if empty is not None:
                rule = f"the {_CELLS[empty]} is empty; fill it in or remove the row."
                on_bad_row(DataError(rule, file=file, line=line, reason="empty-cell"))
                continue
            try:
                label = _label_of(found, source, file, line) if source.labelled else None
            except DataError as error:
                on_bad_row(error)
                continue
            # one object for each label, not for each row
            yield Row(found["text_column"], found.get("pair_column"), None if label is None else intern(label), file, line)


def _label_of(found: Mapping[str, str], source: LabelSource, file: Path, line: int) -> str:
    """The label of a row; several of them with ``BETWEEN`` between them."""
    if isinstance(source.label_column, tuple):
        chosen = {name: _CHOSEN.get(found[f"label_column {name}"].lower()) for name in source.label_column}
        if odd := [name for name, value in chosen.items() if value is None]:
            raise DataError(
                f"the column {odd[0]!r} has {found[f'label_column {odd[0]}']!r}, but a column of several labels has 1 or 0 "
                "(true or false, yes or no).",
                file=file,
                line=line,
                reason="not-a-flag",
            )
        return BETWEEN.join(name for name, value in chosen.items() if value)
    label = found["label_column"]
    if source.target != "several":
        return label
    parts = label.split(BETWEEN) if BETWEEN in label else label.split(source.separator)
    return BETWEEN.join(dict.fromkeys(part.strip() for part in parts if part.strip()))


def read_pairs(source: PairSource, skipped: Skipped | None = None) -> Iterator[PairRow]:
    """The pairs of all files, in order, the empty ones too. Bad rows raise, or go to ``skipped`` when the source allows it."""
    on_bad_row = (skipped or Skipped()).add if source.skip_bad_lines else raise_error
    if source.parallel:
        yield from _parallel_lines(source, on_bad_row)
        return
    columns: dict[str, Column] = {"source_column": source.source_column, "target_column": source.target_column}
    for file in source.files:
        kind = source.format or format_by_name(file)
        if kind in ("text", "label-text"):
            raise DataError(
                "has no columns for source and target; give a jsonl, csv or tsv file, or two text files whose lines belong "
                "together, with a comma between them (data.path: train.de,train.en).",
                file=file,
                reason="no-columns",
            )
        for line, (first, second) in cells(file, kind, columns, on_bad_row):
            yield PairRow(first.strip(), second.strip(), file, line)


def _parallel_lines(source: PairSource, on_bad_row: Callable[[DataError], None]) -> Iterator[PairRow]:
    first, second = source.files
    for one, two in zip_longest(lines(first), lines(second)):
        if one is None or two is None:
            longer, number = (first, one[0]) if one is not None else (second, two[0])
            raise DataError(
                f"has line {number}, but {(second if longer == first else first).name} ends before it; the two files must "
                "have the same number of lines.",
                file=longer,
                line=number,
                reason="unequal-files",
            )
        try:
            yield PairRow(to_text(one[1], first, one[0]).strip(), to_text(two[1], second, two[0]).strip(), first, one[0])
        except DataError as error:
            on_bad_row(error)
