"""A data config -> the files of labelled texts, found; files -> rows of (text, pair, label) with their lines.

A row has a text, perhaps a second text (a pair), and a label as it stands in the file. Refuses an empty text or label with
the file and the line. Does not split, does not tokenize, does not know which labels there may be.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from glassformer.data.config import DataConfig, FormatKind
from glassformer.data.reading.corpus import Skipped, format_by_name
from glassformer.data.reading.readers import LIMITS, Limits
from glassformer.data.reading.tables import Column, cells
from glassformer.foundation.errors import DataError


class Row(NamedTuple):
    """One labelled text and its location. ``label`` is None in a file without labels."""

    text: str
    pair: str | None
    label: str | None
    file: Path
    line: int


@dataclass(frozen=True)
class LabelSource:
    """Files of labelled texts that are read in one way. ``first`` and ``last`` limit the rows, counted over all files."""

    name: str
    files: tuple[Path, ...]
    format: FormatKind | None = None
    text_column: Column = None
    pair_column: Column = None
    label_column: Column = None
    labelled: bool = True
    first: int = 0
    last: int | None = None
    skip_bad_lines: bool = False

    @property
    def reading(self) -> dict[str, object]:
        """How the files are read, as plain values: with the files' bytes this determines the rows."""
        names = ("format", "text_column", "pair_column", "label_column", "labelled", "first", "last")
        return {name: getattr(self, name) for name in names}


@dataclass(frozen=True)
class LabelParts:
    """The sources of a set's labelled texts: training, and validation and tests if it has them."""

    train: LabelSource
    validation: LabelSource | None = None
    tests: Mapping[str, LabelSource] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)  # a label as the file spells it -> what a person reads


@dataclass(frozen=True)
class LabelFiles:
    """The labelled files of a named set: their names in its folder, and how they are read."""

    train: str
    tests: Mapping[str, str] = field(default_factory=dict)  # name -> file; absent ones are left out
    format: FormatKind | None = None
    text_column: Column = None
    pair_column: Column = None
    label_column: Column = None
    names: Mapping[str, str] = field(default_factory=dict)
    train_rows: int | None = None  # rows of the training file that are trained on; the others are the test ``rest``

    def at(self, folder: Path, name: str) -> LabelParts:
        """The sources in ``folder``."""

        def source(file: str, first: int = 0, last: int | None = None) -> LabelSource:
            columns = (self.text_column, self.pair_column, self.label_column)
            return LabelSource(name, (folder / file,), self.format, *columns, first=first, last=last)

        tests = {test: source(file) for test, file in self.tests.items() if (folder / file).is_file()}
        if self.train_rows is not None:
            tests = {"rest": source(self.train, first=self.train_rows), **tests}
        return LabelParts(source(self.train, last=self.train_rows), None, tests, self.names)


def label_source_at(files: tuple[Path, ...], name: str, reading: DataConfig, *, labelled: bool = True) -> LabelSource:
    """Files of a user's own, read as the recipe's ``data`` section says."""
    return LabelSource(
        name=name,
        files=files,
        format=reading.format,
        text_column=reading.text_column,
        pair_column=reading.pair_column,
        label_column=reading.label_column,
        labelled=labelled,
        skip_bad_lines=reading.bad_lines == "skip",
    )


def read_rows(source: LabelSource, *, limits: Limits = LIMITS, skipped: Skipped | None = None) -> Iterator[Row]:
    """The rows of all files, in order. Bad ones raise, or go to ``skipped`` when the source allows it."""

    def throw(error: DataError) -> None:
        raise error

    refuse = (skipped or Skipped()).add if source.skip_bad_lines else throw
    yield from islice(_all_rows(source, limits, refuse), source.first, source.last)


def _all_rows(source: LabelSource, limits: Limits, refuse: Callable[[DataError], None]) -> Iterator[Row]:
    columns: dict[str, Column] = {"text_column": source.text_column}
    if source.pair_column is not None:
        columns["pair_column"] = source.pair_column
    if source.labelled:
        columns["label_column"] = source.label_column
    for file in source.files:
        for line, values in cells(file, _format(source, file), columns, limits, refuse):
            found = dict(zip(columns, (value.strip() for value in values)))
            empty = next((key for key, value in found.items() if not value), None)
            if empty is not None:
                what = {"text_column": "text", "pair_column": "second text", "label_column": "label"}[empty]
                refuse(DataError(f"the {what} is empty; fill it in or remove the row.", file=file, line=line))
                continue
            yield Row(found["text_column"], found.get("pair_column"), found.get("label_column"), file, line)


def _format(source: LabelSource, file: Path) -> FormatKind:
    kind = source.format or format_by_name(file)
    if kind == "text":
        raise DataError(
            "has no columns for text and label; give a jsonl, csv or tsv file, or say data.format: label-text when each line "
            "is a label, a space and the text.",
            file=file,
        )
    return kind
