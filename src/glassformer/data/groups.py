"""Evaluated items -> what each belongs to (``data.group``): a speaker, a book, a person. Imports no torch.

Documents of one speaker are alike, so a study counts speakers, not documents. Questions know their person themselves; else
``data.group`` is ``file``, or a column of the files (a name, or a number counted from 1), read again by file and line.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from glassformer.data.config import DataConfig
from glassformer.data.reading.corpus import format_by_name
from glassformer.data.reading.sources import find_label_sources
from glassformer.data.reading.tables import cells
from glassformer.foundation.errors import ConfigError

FILE = "file"


def groups_of(items: Any, data: DataConfig) -> tuple[str, ...] | None:
    """The group of each item, in order; None where they belong to nothing."""
    own = getattr(items, "groups", None)
    if own is not None or data.group is None:
        return own
    places = _places(items, data)
    if data.group == FILE:
        return tuple(str(file) for file, _ in places)
    known: dict[Path, dict[int, str]] = {}
    for file in dict.fromkeys(file for file, _ in places):
        kind = data.format or format_by_name(file)
        if kind == "text":
            raise ConfigError(
                f"data.group={data.group} names a column, but {file} is plain text; use data.group: {FILE}, or a jsonl, csv or "
                "tsv file.",
                reason="group-without-columns",
            )
        known[file] = {line: value.strip() for line, (value,) in cells(file, kind, {"group": data.group})}
    return tuple(known[file][line] for file, line in places)


def _places(items: Any, data: DataConfig) -> Sequence[tuple[Path, int]]:
    """The file and line of each item."""
    if hasattr(items, "documents"):
        files = [Path(source) for source in items.sources]
        return [(files[row["source"]], int(row["line"])) for row in items.documents]
    sources = find_label_sources(data)
    every = [one for one in (sources.train, sources.validation, *sources.tests.values()) if one is not None]
    by_name = {file.name: file for one in every for file in one.files}
    pairs = (one.rpartition(":") for one in items.ids)
    return [(by_name[name], int(line)) for name, _, line in pairs]
