"""Rows of jsonl, csv, tsv and ``label text`` files -> the texts of some columns, with line numbers.

A column is named (then the first row of a csv or tsv file is its header) or numbered from 1 (then there is no header).
Tab-separated files have no quotes, comma-separated ones do. Lines of the form ``label text`` have the columns ``label``
(up to the first white space) and ``text``. Does not know what the text is for.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from glassformer.data.config import FormatKind
from glassformer.data.reading import readers
from glassformer.data.reading.readers import lines, require_size, to_text
from glassformer.foundation.errors import DataError, did_you_mean

Column = str | int | None
T = TypeVar("T")

DEFAULT_COLUMN = "text"
DEFAULTS = {"text_column": DEFAULT_COLUMN, "label_column": "label", "source_column": "source", "target_column": "target"}
"""Default column names by recipe key."""

_LABEL_TEXT = ["label", "text"]
_NOT_TEXT = re.compile("[\0\ud800-\udfff]")  # NUL and lone surrogates, which JSON can encode
_JSON_WORDS = {
    type(None): "null",
    bool: "true or false",
    int: "a number",
    float: "a number",
    list: "a list",
    dict: "an object",
}


def raise_error(error: DataError) -> None:
    raise error


def cells(
    file: Path, kind: FormatKind, columns: Mapping[str, Column], on_bad_row: Callable[[DataError], None] = raise_error
) -> Iterator[tuple[int, tuple[str, ...]]]:
    """(line, the texts of some columns) of each row. ``columns``: by recipe key. ``on_bad_row`` may raise, or skip the row."""
    named = {key: DEFAULTS.get(key) if column is None else column for key, column in columns.items()}
    for number, found in _objects(file, named) if kind == "jsonl" else _table(file, kind, named):
        if isinstance(found, DataError):
            on_bad_row(found)
        else:
            yield number, found


def column_names(file: Path, kind: FormatKind) -> list[str]:
    """What the columns are called: the keys of the first object, or the first row; empty where there is none."""
    if kind == "label-text":
        return list(_LABEL_TEXT)
    records: Iterator[tuple[int, Any]] = _by_line(file, _object) if kind == "jsonl" else _RECORDS[kind](file)
    for _, found in records:
        if isinstance(found, DataError):
            raise found
        return list(found)
    return []


def _by_line(file: Path, parse: Callable[[str, Path, int], T]) -> Iterator[tuple[int, T | DataError]]:
    """Each line that is not blank, parsed, or the error about it."""
    for number, line in lines(file):
        if line.strip():
            try:
                yield number, parse(to_text(line, file, number), file, number)
            except DataError as error:
                yield number, error


def _objects(file: Path, columns: Mapping[str, Column]) -> Iterator[tuple[int, tuple[str, ...] | DataError]]:
    """The rows of a jsonl file."""
    for key, column in columns.items():
        if isinstance(column, int):
            raise DataError(
                f"data.{key}={column} is a number, but the columns of a jsonl file have names.",
                file=file,
                reason="numbered-jsonl-column",
            )

    def values(text: str, file: Path, number: int) -> tuple[str, ...]:
        record = _object(text, file, number)
        return tuple(_value(record, key, str(column), file, number) for key, column in columns.items())

    return _by_line(file, values)


def _object(text: str, file: Path, number: int) -> dict[str, Any]:
    def without_twins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        made = dict(pairs)
        if len(made) < len(pairs):
            keys = [key for key, _ in pairs]
            twin = next(key for key in keys if keys.count(key) > 1)
            raise DataError(f"the key {twin!r} is given twice; keep one.", file=file, line=number, reason="key-twice")
        return made

    try:
        found = json.loads(text, object_pairs_hook=without_twins)
    except (ValueError, RecursionError) as error:  # ValueError: also numbers of more digits than Python converts
        why = error.msg if isinstance(error, json.JSONDecodeError) else "nested too deeply or a number too long"
        rule = f"is not JSON ({why}); each line of a jsonl file is one object."
        raise DataError(rule, file=file, line=number, reason="not-json") from None
    if not isinstance(found, dict):
        rule = f'is JSON but not an object such as {{"{DEFAULT_COLUMN}": ...}}.'
        raise DataError(rule, file=file, line=number, reason="not-an-object")
    return found


def _value(record: dict[str, Any], key: str, column: str, file: Path, number: int) -> str:
    if column not in record:
        raise _no_column(key, column, list(record), file, number)
    value = record[column]
    if key == "label_column" and isinstance(value, bool | int):
        return str(value).lower()
    if not isinstance(value, str):
        remedy = "fill it in or remove the row" if value is None else "put it in quotes"
        rule = f"the value of {column!r} is {_JSON_WORDS[type(value)]}, not text; {remedy}."
        raise DataError(rule, file=file, line=number, reason="not-text")
    if _NOT_TEXT.search(value):
        rule = "the text contains a NUL or half a character (a lone surrogate); remove it."
        raise DataError(rule, file=file, line=number, reason="half-a-character")
    return value


def _no_column(key: str, column: str | int, known: Sequence[str], file: Path, number: int) -> DataError:
    near = did_you_mean(column, known) if isinstance(column, str) else ""
    there = ", ".join(name if len(name) <= 30 else name[:29] + "…" for name in known[:20])
    return DataError(
        f"there is no column {column!r}.{near} The columns are: {there}; name one with data.{key}"
        f"{' (a number, counted from 1, when the file has no header)' if isinstance(column, str) else ''}.",
        file=file,
        line=number,
        reason=f"no-{key.replace('_', '-')}",
    )


def _table(file: Path, kind: FormatKind, columns: Mapping[str, Column]) -> Iterator[tuple[int, tuple[str, ...] | DataError]]:
    """The rows of the other formats."""
    places: list[int] = []
    width = 0
    numbered = any(isinstance(column, int) for column in columns.values())
    for number, found in _RECORDS[kind](file):
        if isinstance(found, DataError):
            yield number, found
            continue
        first = not width
        if first:
            _require_one_way(columns, file)
            header = _LABEL_TEXT if kind == "label-text" else found
            places, width = [_place(header, key, column, file, number) for key, column in columns.items()], len(found)
        if len(found) != width:
            rule = f"the row has {len(found)} columns, but the first row has {width}; correct or remove it."
            yield number, DataError(rule, file=file, line=number, reason="other-number-of-columns")
        elif not first or kind == "label-text" or numbered:
            yield number, tuple(found[place] for place in places)


def _require_one_way(columns: Mapping[str, Column], file: Path) -> None:
    """Raises if names and numbers are mixed: the first row cannot be both header and data."""
    number = next((key for key, column in columns.items() if isinstance(column, int)), None)
    name = next((key for key, column in columns.items() if not isinstance(column, int)), None)
    if number is not None and name is not None:
        raise DataError(
            f"data.{number}={columns[number]} is a number, as in a file without a header, but data.{name} is the name "
            f"{columns[name]!r}; give numbers for all columns, or names.",
            file=file,
            reason="names-and-numbers",
        )


def _place(first: list[str], key: str, column: Column, file: Path, number: int) -> int:
    """The index of the column, from the header or from a number."""
    if isinstance(column, int):
        if column > len(first):
            raise _no_column(key, column, [str(n + 1) for n in range(len(first))], file, number)
        return column - 1
    name = str(column)
    if first.count(name) > 1:
        raise DataError(f"the header has the column {name!r} twice; rename one.", file=file, line=number, reason="column-twice")
    if name not in first:
        raise _no_column(key, name, first, file, number)
    return first.index(name)


def _label_and_text(line: str, file: Path, number: int) -> list[str]:
    label, *text = line.split(maxsplit=1)
    return [label, text[0].rstrip() if text else ""]


def _tab_separated(line: str, file: Path, number: int) -> list[str]:
    return line.rstrip("\r\n").split("\t")


def _comma_records(file: Path) -> Iterator[tuple[int, list[str] | DataError]]:
    """A quoted cell may span lines; one that never closes ends at the limit for a document, not at the end of the file."""
    csv.field_size_limit(max(csv.field_size_limit(), readers.MAX_DOCUMENT))  # the module's own limit is 128 KiB
    begins, size = 1, 0
    bad: DataError | None = None  # not valid text: the row is bad, but reading continues

    def counted() -> Iterator[str]:
        nonlocal begins, size, bad
        for number, line in lines(file):
            if not size:
                begins = number
            size += len(line)
            require_size(size, "the row (is a quote left open?)", file, begins)
            try:
                yield to_text(line, file, number)
            except DataError as error:
                bad = error
                yield line.replace(b"\0", b"").decode("utf-8", "replace")

    reader = csv.reader(counted(), strict=True)
    while True:
        size, bad = 0, None
        try:
            row = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            rule = f"is not valid csv ({error}); check its quotes."
            yield begins, DataError(rule, file=file, line=begins, reason="not-csv")
            continue
        if bad is not None or row:
            yield begins, bad or row


_RECORDS: dict[str, Callable[[Path], Iterator[tuple[int, list[str] | DataError]]]] = {
    "csv": _comma_records,
    "tsv": lambda file: _by_line(file, _tab_separated),
    "label-text": lambda file: _by_line(file, _label_and_text),
}
