"""Rows of jsonl, csv, tsv and ``label text`` files -> the text of one column or of several, with line numbers.

A column is named (then the first row of a csv or tsv file is its header) or numbered from 1 (then there is no header).
Tab-separated files have no quotes, comma-separated ones do. Lines of the form ``label text`` have the columns ``label``
(up to the first white space) and ``text``. Does not know what the text is for.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from glassformer.data.config import FormatKind
from glassformer.data.reading.readers import LIMITS, Limits, lines, to_text, too_long
from glassformer.foundation.errors import DataError, did_you_mean

Refuse = Callable[[DataError], None]
Column = str | int | None

DEFAULT_COLUMN = "text"
DEFAULTS = {"text_column": DEFAULT_COLUMN, "label_column": "label"}
"""Default column names by recipe key."""

_LABEL_TEXT = ["label", "text"]
_JSON_WORDS = {
    type(None): "null",
    bool: "true or false",
    int: "a number",
    float: "a number",
    list: "a list",
    dict: "an object",
}


def rows(
    file: Path, kind: FormatKind, column: Column, limits: Limits = LIMITS, refuse: Refuse | None = None
) -> Iterator[tuple[int, str]]:
    """(line, text of ``column``) of each row; a bad row goes to ``refuse``, which may raise."""
    for number, (text,) in cells(file, kind, {"text_column": column}, limits, refuse):
        yield number, text


def cells(
    file: Path, kind: FormatKind, columns: Mapping[str, Column], limits: Limits = LIMITS, refuse: Refuse | None = None
) -> Iterator[tuple[int, tuple[str, ...]]]:
    """(line, the texts of several columns) of each row. ``columns``: by recipe key."""

    def throw(error: DataError) -> None:
        raise error

    named = {key: DEFAULTS.get(key) if column is None else column for key, column in columns.items()}
    if kind == "jsonl":
        yield from _jsonl(file, named, limits, refuse or throw)
    else:
        yield from _table(file, kind, named, limits, refuse or throw)


def column_names(file: Path, kind: FormatKind, limits: Limits = LIMITS) -> list[str]:
    """What the columns are called: the keys of the first object, or the first row; empty where there is none."""
    if kind == "label-text":
        return list(_LABEL_TEXT)
    if kind == "jsonl":
        first = next(((number, line) for number, line in lines(file, limits) if line.strip()), None)
        return [] if first is None else list(_object(to_text(first[1], file, first[0]), file, first[0]))
    for _, found in _RECORDS[kind](file, limits):
        if isinstance(found, DataError):
            raise found
        return found
    return []


def _jsonl(file: Path, columns: Mapping[str, Column], limits: Limits, refuse: Refuse) -> Iterator[tuple[int, tuple[str, ...]]]:
    for key, column in columns.items():
        if isinstance(column, int):
            raise DataError(f"data.{key}={column} is a number, but the columns of a jsonl file have names.", file=file)
    for number, line in lines(file, limits):
        if not line.strip():
            continue
        try:
            record = _object(to_text(line, file, number), file, number)
            yield number, tuple(_value(record, key, str(column), file, number) for key, column in columns.items())
        except DataError as error:
            refuse(error)


def _object(text: str, file: Path, number: int) -> dict[str, Any]:
    def without_twins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        made = dict(pairs)
        if len(made) < len(pairs):
            keys = [key for key, _ in pairs]
            twin = next(key for key in keys if keys.count(key) > 1)
            raise DataError(f"the key {twin!r} is given twice; keep one.", file=file, line=number)
        return made

    try:
        found = json.loads(text, object_pairs_hook=without_twins)
    except (ValueError, RecursionError) as error:  # ValueError: also numbers of more digits than Python converts
        reason = error.msg if isinstance(error, json.JSONDecodeError) else "nested too deeply or a number too long"
        raise DataError(f"is not JSON ({reason}); each line of a jsonl file is one object.", file=file, line=number) from None
    if not isinstance(found, dict):
        raise DataError(f'is JSON but not an object such as {{"{DEFAULT_COLUMN}": ...}}.', file=file, line=number)
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
        raise DataError(rule, file=file, line=number)
    return _clean(value, file, number)


def _clean(value: str, file: Path, number: int) -> str:
    """Rejects NUL and lone surrogates, which JSON can encode."""
    if "\0" in value or not _encodes(value):
        raise DataError("the text holds a NUL or half a character (a lone surrogate).", file=file, line=number)
    return value


def _encodes(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _no_column(key: str, column: str | int, known: Sequence[str], file: Path, number: int) -> DataError:
    near = did_you_mean(column, known) if isinstance(column, str) else ""
    there = ", ".join(name if len(name) <= 30 else name[:29] + "…" for name in known[:20])
    return DataError(
        f"there is no column {column!r}.{near} The columns are: {there}; name one with data.{key}"
        f"{' (a number, counted from 1, when the file has no header)' if isinstance(column, str) else ''}.",
        file=file,
        line=number,
    )


def _table(
    file: Path, kind: FormatKind, columns: Mapping[str, Column], limits: Limits, refuse: Refuse
) -> Iterator[tuple[int, tuple[str, ...]]]:
    places: list[int] = []
    width = 0
    for number, found in _RECORDS[kind](file, limits):
        if isinstance(found, DataError):
            refuse(found)
            continue
        first = not width
        if first:
            header = _LABEL_TEXT if kind == "label-text" else found
            _require_one_way(columns, file)
            places, width = [_place(header, key, column, file, number) for key, column in columns.items()], len(found)
        if len(found) != width:
            rule = f"the row has {len(found)} columns, but the first row has {width}; mend or remove it."
            refuse(DataError(rule, file=file, line=number))
        elif not first or kind == "label-text" or any(isinstance(column, int) for column in columns.values()):
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
        )


def _place(first: list[str], key: str, column: Column, file: Path, number: int) -> int:
    """The index of the column, from the header or from a number."""
    if isinstance(column, int):
        if column > len(first):
            raise _no_column(key, column, [str(n + 1) for n in range(len(first))], file, number)
        return column - 1
    name = str(column)
    if first.count(name) > 1:
        raise DataError(f"the header has the column {name!r} twice; rename one.", file=file, line=number)
    if name not in first:
        raise _no_column(key, name, first, file, number)
    return first.index(name)


def _label_records(file: Path, limits: Limits) -> Iterator[tuple[int, list[str] | DataError]]:
    for number, line in lines(file, limits):
        if line.strip():
            try:
                label, *text = to_text(line, file, number).split(maxsplit=1)
                yield number, [label, text[0].rstrip() if text else ""]
            except DataError as error:
                yield number, error


def _tab_records(file: Path, limits: Limits) -> Iterator[tuple[int, list[str] | DataError]]:
    for number, line in lines(file, limits):
        if line.strip():
            try:
                yield number, to_text(line, file, number).rstrip("\r\n").split("\t")
            except DataError as error:
                yield number, error


def _comma_records(file: Path, limits: Limits) -> Iterator[tuple[int, list[str] | DataError]]:
    """A quoted cell may span lines; one that never closes ends at the limit for a document, not at the end of the file."""
    csv.field_size_limit(
        max(csv.field_size_limit(), limits.document_bytes)
    )  # the module's own limit is 128 KiB, for all readers
    begins, size = 1, 0
    bad: DataError | None = None  # not valid text: the row is bad, but reading continues

    def counted() -> Iterator[str]:
        nonlocal begins, size, bad
        for number, line in lines(file, limits):
            if not size:
                begins = number
            size += len(line)
            if size > limits.document_bytes:
                raise too_long("the row (is a quote left open?)", file, begins, limits)
            try:
                yield to_text(line, file, number)
            except DataError as error:
                bad = error
                yield line.replace(b"\0", b"").decode("utf-8", "replace")

    reader = csv.reader(counted(), strict=True)
    while True:
        size, bad = 0, None
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            yield begins, DataError(f"is not valid csv ({error}); check its quotes.", file=file, line=begins)
            continue
        if bad is not None or cells:
            yield begins, bad or cells


_RECORDS = {"csv": _comma_records, "tsv": _tab_records, "label-text": _label_records}
