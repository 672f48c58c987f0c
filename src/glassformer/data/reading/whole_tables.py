"""Whole tables, read in pieces and written again with more columns; csv and tsv files with the separator they had."""

from __future__ import annotations

import csv
import gzip
import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import Any

from glassformer.data.config import FormatKind
from glassformer.data.reading.layouts import Layout, layout_of
from glassformer.data.reading.tables import column_names, rows_of
from glassformer.foundation.errors import DataError, MissingDependency

Rows = list[dict[str, Any]]
Write = Callable[[Rows], None]

QUOTED = {"csv": Layout(), "tsv": Layout("\t")}
"""Layouts in which any cell can be written."""


class WholeTable:
    """The rows of a file, in pieces. ``numbered``: it has no header, and its columns are called 1, 2, ... ``layout``: None of
    jsonl and parquet."""

    def __init__(self, file: Path, kind: FormatKind, *, numbered: bool = False) -> None:
        self.file, self.kind = file, kind
        self.layout = layout_of(file, kind) if kind in ("csv", "tsv") else None
        names = column_names(file, kind)
        if not names:
            raise DataError("there are no rows in it; give at least one text.", file=file, reason="no-rows")
        self.headed = self.layout is not None and not numbered
        self.names = [str(at + 1) for at in range(len(names))] if numbered else names
        if len(set(self.names)) < len(self.names):
            twice = next(name for name in self.names if self.names.count(name) > 1)
            raise DataError(f"the header has the column {twice!r} twice; rename one.", file=file, reason="column-twice")

    def pieces(self, size: int) -> Iterator[Rows]:
        """So many rows at a time."""
        rows = self._rows()
        while piece := list(islice(rows, size)):
            yield piece

    def _rows(self) -> Iterator[dict[str, Any]]:
        for _, found in rows_of(self.file, self.kind, headed=self.headed):
            if isinstance(found, DataError):
                raise found
            yield dict(zip(self.names, found)) if isinstance(found, list) else found


@contextmanager
def table_writer(out: Path | None, kind: FormatKind, layout: Layout | None, names: Sequence[str]) -> Iterator[Write]:
    """Writes to a file, whole or not at all, or (None) to standard output. ``layout``: of the table that was read, if it is of
    this kind."""
    if out is None:
        yield _to_text(sys.stdout, "jsonl" if kind == "parquet" else kind, layout, names)
        sys.stdout.flush()
        return
    draft = out.with_name(f".{out.name}.{os.getpid()}.draft")
    try:
        if kind == "parquet":
            with _to_parquet(draft, out) as write:
                yield write
        else:
            with (gzip.open if out.suffix == ".gz" else open)(draft, "wt", encoding="utf-8", newline="") as stream:
                yield _to_text(stream, kind, layout, names)
        draft.replace(out)
    finally:
        with suppress(OSError):
            draft.unlink()


def _to_text(stream: Any, kind: FormatKind, layout: Layout | None, names: Sequence[str]) -> Write:
    if kind == "jsonl":
        return lambda rows: stream.writelines(json.dumps(row, ensure_ascii=False, default=str) + "\n" for row in rows)
    if layout is None or any(sign in name for name in names for sign in "\t\r\n"):
        layout = QUOTED[kind]
    writer = csv.DictWriter(stream, names, lineterminator="\n", extrasaction="ignore", **layout.form)
    writer.writeheader()
    return lambda rows: writer.writerows([{name: _cell(row.get(name)) for name in names} for row in rows])


def _cell(value: Any) -> Any:
    return str(value).lower() if isinstance(value, bool) else value


@contextmanager
def _to_parquet(draft: Path, out: Path) -> Iterator[Write]:
    try:
        import pyarrow
        import pyarrow.parquet as parquet
    except ImportError as error:
        raise MissingDependency(f"{out} is to be a Parquet file; install glassformer[data].") from error
    writer: Any = None

    def write(rows: Rows) -> None:
        nonlocal writer
        table = pyarrow.Table.from_pylist(rows, schema=writer and writer.schema)
        writer = writer or parquet.ParquetWriter(draft, table.schema)
        writer.write_table(table)

    yield write
    if writer is not None:
        writer.close()
