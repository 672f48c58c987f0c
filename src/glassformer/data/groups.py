"""Evaluated items -> what each belongs to (``data.group``): a speaker, an article, a person. Imports no torch.

Documents of one speaker are alike, so a study counts speakers, not documents. Questions know their person themselves, a named
set its column or its articles; else ``data.group`` is ``file``, ``article``, or a column of the files (a name, or a number
counted from 1), read again by file and line.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from glassformer.data.config import DataConfig
from glassformer.data.reading.corpus import article_lines, format_by_name
from glassformer.data.reading.named_sets import SETS
from glassformer.data.reading.sources import find_label_sources, find_sources
from glassformer.data.reading.tables import cells, column_names
from glassformer.foundation.errors import ConfigError

FILE, ARTICLE = "file", "article"


def groups_of(items: Any, data: DataConfig) -> tuple[str, ...] | None:
    """The group of each item, in order; None where they belong to nothing, or each to a group of its own."""
    own = getattr(items, "groups", None)
    declared = SETS[data.set].group if isinstance(data.set, str) and data.set in SETS else None
    group = declared if data.group is None else data.group
    if own is not None or group is None:
        return own
    places = _places(items, data)
    files = list(dict.fromkeys(file for file, _ in places))
    if data.group is None:  # what a set says holds for its own files
        folder = find_sources(data).train.files[0].parent
        if any(file.parent != folder or not _has_column(file, group, data) for file in files):
            return None
    find = {file: _finder(file, group, data) for file in files}
    groups = tuple(find[file](line) for file, line in places)
    return groups if len(set(groups)) < len(groups) else None


def _has_column(file: Path, group: str | int, data: DataConfig) -> bool:
    """Whether a group that a set declares can be read of this copy of its files."""
    kind = data.format or format_by_name(file)
    return kind == "text" or group in (FILE, ARTICLE) or group in column_names(file, kind)


def _finder(file: Path, group: str | int, data: DataConfig) -> Callable[[int], str]:
    """Line of ``file`` -> its group."""
    kind = data.format or format_by_name(file)
    if group == FILE:
        return lambda line: str(file)
    if group == ARTICLE and kind == "text":
        first = article_lines(file)
        return lambda line: f"{file}:{first[max(0, bisect_right(first, line) - 1)]}"
    if kind == "text":
        raise ConfigError(
            f"data.group={group} names a column, but {file} is plain text; use data.group: {FILE} or {ARTICLE}, or a jsonl, "
            "csv or tsv file.",
            reason="group-without-columns",
        )
    known = {line: value.strip() for line, (value,) in cells(file, kind, {"group": group})}
    return known.__getitem__


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
