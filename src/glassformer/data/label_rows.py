"""A source of labelled texts -> all its rows and what was left out; the same files are read once by a process."""

from __future__ import annotations

from glassformer.data.corpus import Skipped
from glassformer.data.label_sources import LabelSource, Row, read_rows
from glassformer.data.memory import Memory
from glassformer.data.sources import fingerprint_of
from glassformer.foundation.errors import DataError

Rows = tuple[tuple[Row, ...], Skipped]


def rows_of(source: LabelSource) -> Rows:
    """A trial of a study reads its labelled texts to train and to be evaluated, and so does the next one."""
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
