"""Documents -> token arrays on disk -> memory-mapped splits.

Encodes batch by batch, so a corpus larger than memory works. A table has one row per document: its start, the bytes,
characters and words of its text, its source, and two hashes: of the text, and of the text without case and spacing, by which
duplicates are found (a collision is expected once in some billions of documents).
"""

from __future__ import annotations

import hashlib
import io
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO, final

import numpy as np

from glassformer.data.disk_cache import cache_folder
from glassformer.data.near_duplicates import normalised
from glassformer.data.reading.corpus import Document
from glassformer.data.tokenizers.base import Tokenizer
from glassformer.foundation.files import read_json, write_json

SCHEMA = 2
_BATCH_CHARACTERS = 1 << 20
HASHES_AT_ONCE = 1 << 22  # sorted at a time: 32 MiB, and four times that while sorting
REPEAT_EXAMPLES = 3

DOCUMENT = np.dtype(
    [
        ("start", np.int64),  # index of its first token
        ("bytes", np.int64),  # of its text in UTF-8
        ("characters", np.int64),
        ("words", np.int64),  # separated by white space, whatever the tokenizer
        ("line", np.int64),  # where it begins in its file, counted from 1
        ("source", np.int32),  # its file: an index into ``sources``
        ("hash", np.uint64),  # of its text without surrounding white space
        ("copy", np.uint64),  # of its text without case and spacing
    ]
)


@dataclass(frozen=True)
class Duplicates:
    """The number of duplicates, and the first few as (document, the earlier one)."""

    count: int = 0
    examples: tuple[tuple[int, int], ...] = ()


@final
@dataclass(frozen=True)
class TokenSplit:
    """The concatenated tokens of one split, and its documents. Arrays are read-only and may be memory-mapped."""

    name: str
    tokens: np.ndarray
    documents: np.ndarray
    sources: tuple[str, ...]
    unknown_tokens: int
    repeats: Duplicates  # documents that equal an earlier one of the same split

    @property
    def starts(self) -> np.ndarray:
        """int64: where each document begins in ``tokens``."""
        return self.documents["start"]

    @property
    def num_documents(self) -> int:
        return len(self.documents)

    @property
    def num_tokens(self) -> int:
        return len(self.tokens)

    @cached_property
    def num_bytes(self) -> int:
        """Of the text in UTF-8."""
        return int(self.documents["bytes"].sum())

    @cached_property
    def num_characters(self) -> int:
        return int(self.documents["characters"].sum())

    @cached_property
    def num_words(self) -> int:
        """Separated by white space, whatever the tokenizer."""
        return int(self.documents["words"].sum())

    @property
    def unknown_share(self) -> float:
        """The fraction of tokens that are UNK."""
        return self.unknown_tokens / max(1, self.num_tokens)

    def document(self, number: int) -> np.ndarray:
        """The tokens of one document."""
        end = self.starts[number + 1] if number + 1 < self.num_documents else self.num_tokens
        return self.tokens[self.starts[number] : end]

    def where(self, number: int) -> str:
        """``file, line`` of a document, for messages."""
        row = self.documents[number]
        file = Path(self.sources[row["source"]])
        return f"{file.name if file.is_relative_to(cache_folder()) else file}, line {row['line']}"

    def to_dict(self) -> dict[str, Any]:
        return {
            "documents": self.num_documents,
            "tokens": self.num_tokens,
            "bytes": self.num_bytes,
            "characters": self.num_characters,
            "words": self.num_words,
            "unknown_tokens": self.unknown_tokens,
            "unknown_share": self.unknown_share,
            "repeated_documents": self.repeats.count,
        }


def token_type(size: int) -> type[np.uint16] | type[np.uint32]:
    """The smallest type that holds the ids of a vocabulary."""
    return np.uint16 if size <= 1 << 16 else np.uint32


class _OpenDocument:
    """Counts of a document that is still being read."""

    __slots__ = ("_copy", "_first", "_hash", "bytes", "characters", "line", "source", "start", "words")

    def __init__(self, start: int, line: int, source: int) -> None:
        self.start, self.line, self.source = start, line, source
        self.bytes = self.characters = self.words = 0
        self._first: bytes | None = None  # a single chunk, the usual case, allows to ignore surrounding white space
        self._hash: Any = None
        self._copy = hashlib.blake2b(digest_size=8)

    def add(self, text: str) -> None:
        if words := normalised(text):
            self._copy.update(words.encode("utf-8", "surrogatepass") + b" ")
        data = text.encode("utf-8", "surrogatepass")
        self.bytes += len(data)
        self.characters += len(text)
        self.words += len(data.split())
        if self._hash is None and self._first is None:
            self._first = data
            return
        if self._hash is None:
            self._hash = hashlib.blake2b(self._first or b"", digest_size=8)
            self._first = None
        self._hash.update(data)

    def row(self) -> tuple[int, ...]:
        digest = (self._hash or hashlib.blake2b((self._first or b"").strip(), digest_size=8)).digest()
        numbers = (int.from_bytes(each, "big") for each in (digest, self._copy.digest()))
        return (self.start, self.bytes, self.characters, self.words, self.line, self.source, *numbers)


@final
class TokenWriter:
    """Writes the tokens and the table of one split. Holds one batch in memory."""

    def __init__(self, tokenizer: Tokenizer, sources: Sequence[str], tokens: BinaryIO, table: BinaryIO) -> None:
        self._tokenizer, self._tokens_file, self._table_file = tokenizer, tokens, table
        self._type = token_type(tokenizer.size)
        self._pieces: list[Document] = []
        self._characters = 0
        self._sources = {source: number for number, source in enumerate(sources)}
        self._open: _OpenDocument | None = None
        self._tokens = self._documents = self._unknown = 0

    def add(self, document: Document) -> None:
        self._pieces.append(document)
        self._characters += len(document.text)
        if self._characters >= _BATCH_CHARACTERS:
            self._flush()

    def finish(self) -> dict[str, Any]:
        """Writes the last batch; returns the metadata for reading the files."""
        self._flush()
        if self._open is not None:
            self._write_rows([self._open.row()])
            if self._tokenizer.stop_id is not None:
                self._write_tokens(np.array([self._tokenizer.stop_id]))
        return {
            "schema": SCHEMA,
            "type": np.dtype(self._type).name,
            "tokens": self._tokens,
            "documents": self._documents,
            "unknown_tokens": self._unknown,
        }

    def _flush(self) -> None:
        if not self._pieces:
            return
        ids, counts = self._tokenizer.encode_batch([piece.text for piece in self._pieces])
        if self._tokenizer.unknown_id is not None:
            self._unknown += int(np.count_nonzero(ids == self._tokenizer.unknown_id))
        start, stop = (
            np.array([] if mark is None else [mark], self._type) for mark in (self._tokenizer.start_id, self._tokenizer.stop_id)
        )
        rows, begin = [], self._tokens
        marked: list[np.ndarray] = [np.zeros(0, self._type)]
        for piece, part in zip(self._pieces, np.split(ids, np.cumsum(counts)[:-1])):
            if self._open is None or not piece.continues:
                if self._open is not None:  # a document ends when the next one begins
                    rows.append(self._open.row())
                    marked.append(stop)
                    begin += len(stop)
                self._open = _OpenDocument(begin, piece.line, self._sources[piece.source])
                marked.append(start)
                begin += len(start)
            self._open.add(piece.text)
            marked.append(part)
            begin += len(part)
        self._write_rows(rows)
        self._write_tokens(np.concatenate(marked))
        self._pieces, self._characters = [], 0

    def _write_tokens(self, ids: np.ndarray) -> None:
        self._tokens_file.write(ids.astype(self._type, copy=False).tobytes())
        self._tokens += len(ids)

    def _write_rows(self, rows: list[tuple[int, ...]]) -> None:
        self._table_file.write(np.array(rows, DOCUMENT).tobytes())
        self._documents += len(rows)


@contextmanager
def split_writers(
    folders: Mapping[str, Path], tokenizer: Tokenizer, sources: Sequence[str]
) -> Iterator[dict[str, TokenWriter]]:
    """A writer for each split, so that one pass fills them all. The folders are complete when the ``with`` succeeds."""
    with ExitStack() as files:
        writers = {}
        streams = []
        for name, folder in folders.items():
            streams += [files.enter_context((folder / file).open("wb")) for file in ("tokens.bin", "documents.bin")]
            writers[name] = TokenWriter(tokenizer, sources, *streams[-2:])
        yield writers
        facts = {name: writer.finish() for name, writer in writers.items()}
        for stream in streams:
            stream.flush()
            os.fsync(stream.fileno())
    for name, folder in folders.items():
        again = duplicates_within(_mapped(folder / "documents.bin", DOCUMENT)["copy"])
        write_json(folder / "facts.json", {**facts[name], "repeats": [again.count, again.examples]})


def is_whole(folder: Path) -> bool:
    """Whether the files of a split exist with the recorded sizes."""
    try:
        facts = json.loads((folder / "facts.json").read_text())
        tokens = facts["tokens"] * np.dtype(facts["type"]).itemsize
        sizes = (folder / "tokens.bin").stat().st_size, (folder / "documents.bin").stat().st_size
        return bool(facts["schema"] == SCHEMA and sizes == (tokens, facts["documents"] * DOCUMENT.itemsize))
    except (OSError, ValueError, KeyError, TypeError):
        return False


def open_split(name: str, folder: Path, sources: Sequence[str]) -> TokenSplit:
    """The split in a folder, memory-mapped. ``sources``: the original files, which may have moved since."""
    facts = read_json(folder / "facts.json")
    count, examples = facts["repeats"]
    return TokenSplit(
        name=name,
        tokens=_mapped(folder / "tokens.bin", np.dtype(facts["type"])),
        documents=_mapped(folder / "documents.bin", DOCUMENT),
        sources=tuple(sources),
        unknown_tokens=facts["unknown_tokens"],
        repeats=Duplicates(count, tuple((later, first) for later, first in examples)),
    )


def split_of_documents(name: str, tokenizer: Tokenizer, documents: Iterable[Document]) -> TokenSplit:
    """A split in memory, for texts of a few pages."""
    tokens, table = io.BytesIO(), io.BytesIO()
    documents = list(documents)
    sources = tuple(dict.fromkeys(document.source for document in documents))
    writer = TokenWriter(tokenizer, sources, tokens, table)
    for document in documents:
        writer.add(document)
    facts = writer.finish()
    rows = np.frombuffer(table.getvalue(), DOCUMENT)
    ids = np.frombuffer(tokens.getvalue(), token_type(tokenizer.size))
    return TokenSplit(name, ids, rows, sources, facts["unknown_tokens"], duplicates_within(rows["copy"]))


def _mapped(file: Path, kind: np.dtype[Any]) -> np.ndarray:
    return np.memmap(file, kind, mode="r") if file.stat().st_size else np.zeros(0, kind)  # an empty file cannot be mapped


def duplicates_within(hashes: np.ndarray) -> Duplicates:
    """Documents that equal an earlier one of the same split."""
    count = 0
    found: list[tuple[int, int]] = []
    bits = max(0, (len(hashes) // HASHES_AT_ONCE).bit_length())
    for bucket in range(1 << bits):  # equal hashes share their first bits, so buckets are independent
        places = np.arange(len(hashes)) if not bits else np.flatnonzero(hashes >> np.uint64(64 - bits) == bucket)
        inside = np.asarray(hashes[places])
        order = np.argsort(inside, kind="stable")
        ordered = inside[order]
        same = np.flatnonzero(ordered[1:] == ordered[:-1]) + 1
        count += len(same)
        later = places[order[same]]
        for place in np.sort(later)[:REPEAT_EXAMPLES].tolist():
            first = places[order[np.searchsorted(ordered, hashes[place])]]
            found.append((place, int(first)))
    return Duplicates(count, tuple(sorted(found)[:REPEAT_EXAMPLES]))


def duplicates_of(train: np.ndarray, held_out: np.ndarray) -> Duplicates:
    """Documents of ``held_out`` that also occur in ``train``."""
    order = np.argsort(held_out, kind="stable")
    ordered = np.asarray(held_out)[order]
    seen = np.full(len(held_out), -1, np.int64)  # for each held-out document, its first place in train
    for start in range(0, len(train), HASHES_AT_ONCE):
        part = np.asarray(train[start : start + HASHES_AT_ONCE])
        values, first = np.unique(part, return_index=True)
        at = np.searchsorted(values, ordered)
        at[at == len(values)] = 0
        hit = (values[at] == ordered) & (seen[order] < 0) if len(values) else np.zeros(len(ordered), bool)
        seen[order[hit]] = first[at[hit]] + start
    which = np.flatnonzero(seen >= 0)
    return Duplicates(len(which), tuple((place, int(seen[place])) for place in which[:REPEAT_EXAMPLES].tolist()))
