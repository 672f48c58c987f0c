"""Rows of csv, tsv, jsonl, parquet and ``label text`` files -> the texts of some columns, with line numbers.

A column is named (then the first row of a csv or tsv file is its header) or numbered from 1 (then there is no header).
Tab-separated files have no quotes, comma-separated ones do; a csv file may also have semicolons, tabs or bars between its
columns, begin with a spreadsheet's line ``sep=;``, and be in UTF-16 or Windows-1252: ``layout_of`` finds that out. Lines of
the form ``label text`` have the columns
``label`` (up to the first white space) and ``text``. Does not know what the text is for. At the end: whole tables, read in
pieces and written with more columns, a csv file with the separator it was read with.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import json
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol, TextIO, TypeVar

from glassformer.data.config import FormatKind
from glassformer.data.reading import readers
from glassformer.data.reading.readers import lines, open_bytes, require_size, to_text
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


DELIMITERS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "vertical bars"}
_HEAD = 1 << 12  # bytes in which UTF-16 is looked for
_SAMPLE = 1 << 18  # bytes of a csv file that are looked at
_FEWEST_FOREIGN = 3  # bytes of another encoding; fewer are rather damage in UTF-8
_ALIKE = 0.9  # share of the rows that must have as many columns as the header
_PARQUET_ROWS = 4096
_SEPARATOR_LINE = re.compile(r"\s*\"?sep=(.)\"?[ \t]*\r?\n", re.IGNORECASE)


@dataclass(frozen=True)
class Layout:
    """How a csv file is written: the character between columns, and its encoding (None: UTF-8).

    ``says_so``: its first line names the character, and the header is the second. ``word``: one that another encoding would
    spell in another way.
    """

    delimiter: str = ","
    encoding: str | None = None
    says_so: bool = False
    word: str | None = None

    def note(self, name: str) -> str | None:
        """A sentence, unless these are commas and UTF-8."""
        found = [f"{DELIMITERS.get(self.delimiter, repr(self.delimiter))} between its columns"] * (self.delimiter != ",")
        found += [f"the encoding {self.encoding}"] * (self.encoding is not None)
        doubt = f" If it does not say {self.word!r}, save it as UTF-8." if self.word is not None else ""
        return f"{name} was read with {' and '.join(found)}.{doubt}" if found else None


def layout_of(file: Path) -> Layout:
    """The layout of a csv file, from its first rows."""
    try:
        facts = file.stat()
    except OSError:  # reported where the file is read
        return Layout()
    return _layout(file, facts.st_size, facts.st_mtime_ns)


@lru_cache(maxsize=64)
def _layout(file: Path, size: int, changed: int) -> Layout:
    with file.open("rb") as raw:
        head = raw.read(_HEAD)
    encoding = "utf-16" if head[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE) else _utf_16_without_a_mark(head)
    with open_bytes(file, encoding=encoding) as stream:
        sample = stream.read(_SAMPLE)
    whole = len(sample) < _SAMPLE
    if encoding is None and _is_windows_1252(sample if whole else sample[: sample.rfind(b"\n") + 1]):
        encoding = "cp1252"
    text = sample.decode("utf-8" if encoding != "cp1252" else encoding, "replace").removeprefix("\ufeff")
    word = re.search(r"[^\W\d_]*[^\W\d_\x00-\x7f][^\W\d_]*", text) if encoding == "cp1252" else None
    if (named := _SEPARATOR_LINE.match(text)) is not None:
        return Layout(named[1], encoding, says_so=True, word=word and word[0])
    return Layout(_delimiter(text, whole=whole), encoding, word=word and word[0])


def _utf_16_without_a_mark(head: bytes) -> str | None:
    """Text that is mostly ASCII has a zero in every other byte."""
    pairs = len(head) // 2
    for name, zeros, others in (("utf-16-le", head[1::2], head[::2]), ("utf-16-be", head[::2], head[1::2])):
        if pairs and zeros.count(0) >= 0.5 * pairs and not others.count(0):
            return name
    return None


def _is_windows_1252(sample: bytes) -> bool:
    """Whether every byte beyond ASCII is a character of Windows-1252 and none could be UTF-8: what a spreadsheet writes."""
    foreign = sample.translate(None, bytes(range(128)))
    try:
        sample.decode("utf-8")
        return False
    except UnicodeDecodeError:
        pass
    if len(foreign) < _FEWEST_FOREIGN or re.search(rb"[\xc2-\xf4][\x80-\xbf]", sample):
        return False
    try:
        foreign.decode("cp1252")
    except UnicodeDecodeError:
        return False
    return True


def _delimiter(text: str, *, whole: bool) -> str:
    """The first character with which the first row has several columns and the next rows have as many; else a comma."""
    for delimiter in DELIMITERS:
        try:
            widths = [len(row) for row in csv.reader(io.StringIO(text, newline=""), delimiter=delimiter) if row]
        except csv.Error:
            continue
        widths = widths if whole else widths[:-1]
        if widths and widths[0] > 1 and widths.count(widths[0]) >= _ALIKE * len(widths):
            return delimiter
    return ","


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
    if kind == "label-text":
        return list(_LABEL_TEXT)
    if kind == "parquet":
        return list(_parquet(file).schema_arrow.names)
    for _, found in records_of(file, kind):
        if isinstance(found, DataError):
            raise found
        return list(found)
    return []


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
    places: list[int] = []
    width = 0
    numbered = any(isinstance(column, int) for column in columns.values())
    for number, found in records_of(file, kind):
        if isinstance(found, DataError):
            yield number, found
            continue
        first = not width
        if first:
            _require_one_way(columns, file)
            header = _LABEL_TEXT if kind == "label-text" else found
            places, width = [_place(header, key, column, file, number) for key, column in columns.items()], len(found)
        if len(found) != width:
            yield number, _other_width(found, width, kind, file, number)
        elif not first or kind == "label-text" or numbered:
            yield number, tuple(found[place] for place in places)


def _other_width(row: list[str], width: int, kind: FormatKind, file: Path, number: int) -> DataError:
    quoted = kind == "tsv" and any(cell.startswith('"') for cell in row)
    remedy = "a .tsv file has no quotes: name it .csv, whose tabs are found" if quoted else "correct or remove it"
    rule = f"the row has {len(row)} columns, but the first row has {width}; {remedy}."
    return DataError(rule, file=file, line=number, reason="quoted-tsv" if quoted else "other-number-of-columns")


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


def _comma_records(file: Path) -> Iterator[tuple[int, list[str] | DataError]]:
    """A quoted cell may span lines; one that never closes ends at the limit for a document, not at the end of the file."""
    csv.field_size_limit(max(csv.field_size_limit(), readers.MAX_DOCUMENT))  # the module's own limit is 128 KiB
    layout, begins, size = layout_of(file), 1, 0
    bad: DataError | None = None  # not valid text: the row is bad, but reading continues

    def counted() -> Iterator[str]:
        nonlocal begins, size, bad
        for number, line in lines(file, encoding=layout.encoding):
            if number == 1 and layout.says_so:
                continue
            if not size:
                begins = number
            size += len(line)
            require_size(size, "the row (is a quote left open?)", file, begins)
            try:
                yield to_text(line, file, number)
            except DataError as error:
                bad = error
                yield line.replace(b"\0", b"").decode("utf-8", "replace")

    reader = csv.reader(counted(), delimiter=layout.delimiter, strict=True)
    while True:
        size, bad = 0, None
        try:
            row = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            returns = "new-line character" in str(error)  # Python's words for it
            returned = "its lines end in a carriage return alone, as in old Mac files; save it with line feeds."
            rule = returned if returns else f"is not valid csv ({error}); check its quotes."
            yield begins, DataError(rule, file=file, line=begins, reason="not-csv")
            continue
        if bad is not None or row:
            yield begins, bad or row


_RECORDS: dict[str, Callable[[Path], Iterator[tuple[int, Any]]]] = {
    "csv": _comma_records,
    "tsv": lambda file: _by_line(file, lambda line, file, number: line.rstrip("\r\n").split("\t")),
    "parquet": _parquet_rows,
    "jsonl": lambda file: _by_line(file, _object),
    "label-text": lambda file: _by_line(file, _label_and_text),
}


Rows = list[dict[str, Any]]


class WholeTable:
    """The rows of a file, in pieces. ``numbered``: it has no header, and its columns are called 1, 2, ..."""

    def __init__(self, file: Path, kind: FormatKind, *, numbered: bool = False) -> None:
        self.file, self.kind = file, kind
        self.layout = layout_of(file) if kind == "csv" else Layout("\t")
        names = column_names(file, kind)
        if not names:
            raise DataError("there are no rows in it; give at least one text.", file=file, reason="no-rows")
        self.headed = kind in ("csv", "tsv") and not numbered
        self.names = [str(at + 1) for at in range(len(names))] if numbered else names
        if len(set(self.names)) < len(self.names):
            twice = next(name for name in self.names if self.names.count(name) > 1)
            raise DataError(f"the header has the column {twice!r} twice; rename one.", file=file, reason="column-twice")

    def pieces(self, size: int) -> Iterator[Rows]:
        rows: Rows = []
        for at, (line, found) in enumerate(records_of(self.file, self.kind)):
            if isinstance(found, DataError):
                raise found
            if isinstance(found, list):
                if not at and self.headed:
                    continue
                if len(found) != len(self.names):
                    raise _other_width(found, len(self.names), self.kind, self.file, line)
                found = dict(zip(self.names, found))
            rows.append(found)
            if len(rows) == size:
                yield rows
                rows = []
        if rows:
            yield rows


class TableWriter(Protocol):
    """Writes rows."""

    def write(self, rows: Rows) -> None: ...


class _Lines:
    def __init__(self, stream: TextIO, kind: FormatKind, layout: Layout, names: Sequence[str]) -> None:
        self.stream, self.kind, self.names = stream, kind, list(names)
        self.layout, self.begun = layout, False

    def write(self, rows: Rows) -> None:
        if self.kind == "jsonl":
            self.stream.writelines(json.dumps(row, ensure_ascii=False, default=str) + "\n" for row in rows)
            return
        delimiter = "\t" if self.kind == "tsv" else self.layout.delimiter
        writer = csv.DictWriter(self.stream, self.names, delimiter=delimiter, lineterminator="\n", extrasaction="ignore")
        if not self.begun:
            writer.writeheader()
            self.begun = True
        writer.writerows([{name: _cell(row.get(name)) for name in self.names} for row in rows])


def _cell(value: Any) -> Any:
    return str(value).lower() if isinstance(value, bool) else value


class _Parquet:
    def __init__(self, file: Path) -> None:
        self.file = file
        self.writer: Any = None

    def write(self, rows: Rows) -> None:
        import pyarrow
        import pyarrow.parquet as parquet

        if self.writer is None:
            table = pyarrow.Table.from_pylist(rows)
            self.writer = parquet.ParquetWriter(self.file, table.schema)
        else:
            table = pyarrow.Table.from_pylist(rows, schema=self.writer.schema)
        self.writer.write_table(table)

    def close(self) -> None:
        if self.writer is not None:
            self.writer.close()


def _opened(file: Path, *, packed: bool) -> TextIO:
    return gzip.open(file, "wt", encoding="utf-8", newline="") if packed else file.open("w", encoding="utf-8", newline="")


@contextmanager
def table_writer(out: Path | None, kind: FormatKind, layout: Layout, names: Sequence[str]) -> Iterator[TableWriter]:
    """Writes to a file, whole or not at all, or (None) to standard output."""
    if out is None:
        yield _Lines(sys.stdout, "jsonl" if kind == "parquet" else kind, layout, names)
        sys.stdout.flush()
        return
    draft = out.with_name(f".{out.name}.{os.getpid()}.draft")
    try:
        if kind == "parquet":
            try:
                import pyarrow  # noqa: F401
            except ImportError as error:
                raise MissingDependency(f"{out} is to be a Parquet file; install glassformer[data].") from error
            columns = _Parquet(draft)
            yield columns
            columns.close()
        else:
            with _opened(draft, packed=out.suffix == ".gz") as stream:
                yield _Lines(stream, kind, layout, names)
        draft.replace(out)
    finally:
        with suppress(OSError):
            draft.unlink()
