"""A source of labelled texts -> its rows and the skipped lines; cached in memory."""

from __future__ import annotations

from glassformer.data.labels.label_sources import LabelSource, Row, read_rows
from glassformer.data.memory_cache import Memory
from glassformer.data.reading.corpus import Skipped
from glassformer.data.reading.sources import fingerprint_of
from glassformer.foundation.errors import DataError

Rows = tuple[tuple[Row, ...], Skipped]


def rows_of(source: LabelSource) -> Rows:
    """The rows of a source; cached, because every trial of a study reads the same files."""
    sha256 = fingerprint_of(source)

    def make() -> Rows:
        skipped = Skipped()
        rows = tuple(read_rows(source, skipped=skipped))
        if fingerprint_of(source) != sha256:
            raise DataError("was written to while it was read; start again when it is at rest.", file=source.name)
        return rows, skipped

    return _memory.get((source, sha256), make)


def _size(read: Rows) -> int:
    return sum(2 * len(row.text) + 2 * len(row.pair or "") + 200 for row in read[0])


_memory = Memory[Rows](4, _size)
