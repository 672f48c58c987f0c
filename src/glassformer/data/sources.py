"""A data config -> the files of each part, found and fingerprinted.

Finds files in folders, copies standard input to where it can be read twice, and knows the sha256 of everything. Reads
no text.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from glassformer.data.config import DataConfig
from glassformer.data.corpus import Source
from glassformer.data.sets import Parts, find_set
from glassformer.foundation.errors import DataError
from glassformer.foundation.files import sha256_of_file

TEXT_ENDINGS = (".txt", ".text", ".md", ".rst", ".jsonl", ".ndjson", ".csv", ".tsv")


def find_parts(data: DataConfig) -> Parts:
    """The files of a recipe's data. A file of its own replaces what a set brings along."""
    if data.set is not None:
        found = find_set(data.set)
    else:
        assert data.path is not None
        found = Parts(train=source_at(data.path, data))
    validation = source_at(data.validation, data) if data.validation else found.validation
    tests = {"": source_at(data.test, data)} if data.test else found.tests
    vocabulary = tuple(source_at(path, data) for path in data.vocabulary) or found.vocabulary
    return Parts(found.train, validation, tests, vocabulary, found.notes)


def source_at(path: str, data: DataConfig) -> Source:
    """The source at a path, read as ``data`` says."""
    place = Path(path).expanduser()
    files = tuple(_text_files(place, data.files)) if place.is_dir() else (place,)
    if not place.exists():
        raise DataError("does not exist; check the path.", file=place)
    return Source(
        name=path,
        files=files,
        document=data.document or "file",
        format=data.format,
        text_column=data.text_column,
        skip_bad_lines=data.bad_lines == "skip",
    )


def _text_files(folder: Path, pattern: str | None) -> list[Path]:
    raise NotImplementedError


def fingerprint_of(source: Source) -> str:
    """sha256 over the files' sha256, in order. A single file has its own."""
    digests = [sha256_of_file(file) for file in source.files]
    return digests[0] if len(digests) == 1 else hashlib.sha256("".join(digests).encode()).hexdigest()


def size_of(source: Source) -> int:
    """Bytes on disk."""
    return sum(os.stat(file).st_size for file in source.files)
