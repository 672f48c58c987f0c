"""Rows of csv, tsv, jsonl, parquet and ``label text`` files -> the texts of some columns, with line numbers.

A column is named (then the first row of a csv or tsv file is its header) or numbered from 1 (then there is no header). Lines of
the form ``label text`` have the columns ``label`` (up to the first white space) and ``text``. How a csv or tsv file is written
is found by ``layouts``. Does not know what the text is for.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from glassformer.data.config import FormatKind
from glassformer.data.reading.layouts import separated_rows
from glassformer.data.reading.readers import lines, to_text
from glassformer.foundation.errors import DataError, MissingDependency, did_you_mean

Column = str | int | None
T = TypeVar("T")

DEFAULT_COLUMN = "text"
BETWEEN = "\x1f"
"""Between several labels of one cell: the sign that ASCII has for it, so no label contains it."""
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
_PARQUET_ROWS = 4096


def raise_error(error: DataError) -> None:
    raise error


def cells(
    file: Path, kind: FormatKind, columns: Mapping[str, Column], on_bad_row: Callable[[DataError], None] = raise_error
) -> Iterator[tuple[int, tuple[str, ...]]]:
    """(line, the texts of some columns) of each row. ``columns``: by recipe key. ``on_bad_row`` may raise, or skip the row."""
    named = {key: DEFAULTS.get(key) if column is None else column for key, column in columns.items()}
    rows = _objects(file, kind, named) if kind in ("jsonl", "parquet") else _table(file, kind, named)
    for number, found in rows:
        if isinstance(found, DataError):
            on_bad_row(found)
        else:
            yield number, found


def column_names(file: Path, kind: FormatKind) -> list[str]:
    """What the columns are called: the keys of the first object, or the first row; empty where there is none."""
    return list(_parquet(file).schema_arrow.names) if kind == "parquet" else _first_row(file, kind)[1]


def _first_row(file: Path, kind: FormatKind) -> tuple[int, list[str]]:
    """(its line, the names in it)."""
    for number, found in records_of(file, kind):
        if isinstance(found, DataError):
            raise found
        return number, list(_LABEL_TEXT if kind == "label-text" else found)
    return 1, []


def rows_of(file: Path, kind: FormatKind, *, headed: bool) -> Iterator[tuple[int, Any]]:
    """``records_of`` without the header (``headed``: there is one). A row with more or fewer cells than the first one, and one
    that repeats the header, is an error too."""
    first: list[str] | None = None
    for number, found in records_of(file, kind):
        if isinstance(found, list):
            if first is None:
                first = found
                if headed:
                    continue
            elif len(found) != len(first):
                rule = f"the row has {len(found)} columns, but the first row has {len(first)}; correct or remove it."
                yield number, DataError(rule, file=file, line=number, reason="other-number-of-columns")
                continue
            elif headed and found == first and len(first) > 1:
                rule = "the row repeats the header, as where files were joined; remove it."
                yield number, DataError(rule, file=file, line=number, reason="header-again")
                continue
        yield number, found


def records_of(file: Path, kind: FormatKind) -> Iterator[tuple[int, Any]]:
    """(line, record) of each row: a mapping in jsonl and parquet files, else a list, with the header first where there is one.
    A row that cannot be read is the error about it."""
    return _RECORDS[kind](file)


def _parquet(file: Path) -> Any:
    """The file as pyarrow opens it."""
    try:
        import pyarrow
        import pyarrow.parquet as parquet
    except ImportError as error:
        raise MissingDependency(f"{file} is a Parquet file; install glassformer[data] to read it.") from error
    try:
        return parquet.ParquetFile(file)
    except OSError as error:
        raise DataError(
            f"cannot be read ({error.strerror or error}); check the path.", file=file, reason="unreadable"
        ) from None
    except pyarrow.ArrowException as error:
        raise DataError(f"is not a valid Parquet file ({error}); write it again.", file=file, reason="not-parquet") from None


def _parquet_rows(file: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    number = 0
    for batch in _parquet(file).iter_batches(batch_size=_PARQUET_ROWS):
        for record in batch.to_pylist():
            number += 1
            yield number, record


def _by_line(file: Path, parse: Callable[[str, Path, int], T]) -> Iterator[tuple[int, T | DataError]]:
    """Each line that is not blank, parsed, or the error about it."""
    for number, line in lines(file):
        if line.strip():
            try:
                yield number, parse(to_text(line, file, number), file, number)
            except DataError as error:
                yield number, error


def _objects(file: Path, kind: FormatKind, columns: Mapping[str, Column]) -> Iterator[tuple[int, tuple[str, ...] | DataError]]:
    """The rows of a jsonl or parquet file."""
    for key, column in columns.items():
        if isinstance(column, int):
            raise DataError(
                f"data.{key}={column} is a number, but the columns of a {kind} file have names.",
                file=file,
                reason="numbered-jsonl-column",
            )
    for number, record in records_of(file, kind):
        try:
            if isinstance(record, DataError):
                raise record
            yield number, tuple(_value(record, key, str(column), file, number) for key, column in columns.items())
        except DataError as error:
            yield number, error


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
    if key.startswith("label_column") and isinstance(value, bool | int | float):
        return str(value).lower()
    if key == "label_column" and isinstance(value, list) and all(isinstance(one, str) for one in value):
        return BETWEEN.join(value)
    if not isinstance(value, str):
        other = "name a column of texts" if isinstance(value, dict | list) else "put it in quotes"
        remedy = "fill it in or remove the row" if value is None else other
        rule = f"the value of {column!r} is {_JSON_WORDS.get(type(value), type(value).__name__)}, not text; {remedy}."
        raise DataError(rule, file=file, line=number, reason="not-text")
    if _NOT_TEXT.search(value):
        rule = "the text contains a NUL or half a character (a lone surrogate); remove it."
        raise DataError(rule, file=file, line=number, reason="half-a-character")
    return value


def _no_column(key: str, column: str | int, known: Sequence[str], file: Path, number: int) -> DataError:
    key = key.partition(" ")[0]  # of several columns of labels, the key has the name of each
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
    line, names = _first_row(file, kind)
    if not names:
        return
    _require_one_way(columns, file)
    places = [_place(names, key, column, file, line) for key, column in columns.items()]
    numbered = any(isinstance(column, int) for column in columns.values())
    for number, found in rows_of(file, kind, headed=kind != "label-text" and not numbered):
        yield number, found if isinstance(found, DataError) else tuple(found[place] for place in places)


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
    name = named(name, first)
    if name not in first:
        raise _no_column(key, name, first, file, number)
    return first.index(name)


def named(name: str, header: Sequence[str]) -> str:
    """The column of that name, up to white space around it if no other way is left."""
    alike = [one for one in header if one.strip() == name.strip()]
    return alike[0] if name not in header and len(alike) == 1 else name


def _label_and_text(line: str, file: Path, number: int) -> list[str]:
    label, *text = line.split(maxsplit=1)
    return [label, text[0].rstrip() if text else ""]


_RECORDS: dict[str, Callable[[Path], Iterator[tuple[int, Any]]]] = {
    "csv": partial(separated_rows, kind="csv"),
    "tsv": partial(separated_rows, kind="tsv"),
    "parquet": _parquet_rows,
    "jsonl": lambda file: _by_line(file, _object),
    "label-text": lambda file: _by_line(file, _label_and_text),
}
