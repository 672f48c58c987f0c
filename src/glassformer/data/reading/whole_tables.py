"""A table with all its columns, read in pieces, and written with more: csv, tsv, jsonl, parquet. Imports no torch.

``tables`` reads the texts of some columns; here a row is a mapping of all of them. A csv file is written with the separator it
was read with. A file is written beside its name and renamed when complete.
"""

from __future__ import annotations

import csv
import json
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Protocol, TextIO

from glassformer.data.config import FormatKind
from glassformer.data.reading.tables import Layout, column_names, layout_of, records_of
from glassformer.foundation.errors import DataError, MissingDependency

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
                    rule = f"the row has {len(found)} columns, but the first row has {len(self.names)}; correct or remove it."
                    raise DataError(rule, file=self.file, line=line, reason="other-number-of-columns")
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
            with draft.open("w", encoding="utf-8", newline="") as stream:
                yield _Lines(stream, kind, layout, names)
        draft.replace(out)
    finally:
        with suppress(OSError):
            draft.unlink()
