"""Files -> validated text, in chunks of bounded size.

Opens plain and gzipped files in UTF-8 or UTF-16; yields lines or larger chunks, in UTF-8. Refuses NUL bytes, invalid UTF-8,
endless lines and gzip bombs, naming the file, the line and the remedy.
"""

from __future__ import annotations

import codecs
import gzip
import io
import stat
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from glassformer.foundation.errors import DataError, UsageError

PIECE_BYTES = 1 << 20

# Limits of reading: far above normal text and far below a machine's memory.
MAX_DOCUMENT = 64 << 20  # bytes of one line, block, row or article; a whole file as one document is streamed instead
MAX_UNPACKED = 100  # times its size that an archive may give; gzip makes text 2-10 times smaller, deflate's ceiling is 1032
UNPACKED_FREE = 16 << 20  # bytes that may come out of any archive before the ratio counts

EMPTY_LINE = "the line is empty, so later answers would stand on other lines than what they answer; fill it in or remove it."
"""Of files whose answers are written line by line."""

# Common mistakes, recognised by their first bytes.
_NOT_TEXT = {
    b"PK\x03\x04": "a zip archive; unpack it first",
    b"PAR1": "a Parquet file; name it so that it ends in .parquet",
    b"%PDF": "a PDF; extract its text first",
    b"BZh": "compressed with bzip2; unpack it first (only gzip is read directly)",
    b"\xfd7zXZ": "compressed with xz; unpack it first (only gzip is read directly)",
    b"\x28\xb5\x2f\xfd": "compressed with zstd; unpack it first (only gzip is read directly)",
    b"\x80\x04\x95": "a pickle, which is never read",
}
_GZIP = b"\x1f\x8b"
_HEAD = 1 << 12  # bytes in which UTF-16 is looked for


class _Unpacked(io.RawIOBase):
    """A gzip stream that raises when the compression ratio is implausible."""

    def __init__(self, packed: BinaryIO, file: Path) -> None:
        self._packed, self._file = packed, file
        self._gzip = gzip.GzipFile(fileobj=packed, mode="rb")
        self._given = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: object) -> int:
        view = memoryview(buffer)  # type: ignore[arg-type]
        try:
            data = self._gzip.read(len(view))
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise DataError(
                f"the gzip data are damaged or cut off ({error}); fetch or pack the file again.",
                file=self._file,
                reason="damaged-gzip",
            ) from None
        view[: len(data)] = data
        self._given += len(data)
        taken = max(self._packed.tell(), 1)
        if self._given > UNPACKED_FREE and self._given > MAX_UNPACKED * taken:
            raise DataError(
                f"unpacks to more than {MAX_UNPACKED} times its size, which text never does (a gzip bomb does); "
                "if you trust it, unpack it yourself and give the unpacked file.",
                file=self._file,
                reason="gzip-bomb",
            )
        return len(data)


class Recoded(io.RawIOBase):
    """The text of a file in another encoding, as UTF-8."""

    def __init__(self, raw: Any, encoding: str, file: Path) -> None:
        self._raw, self._file, self.encoding = raw, file, encoding
        self._decoder = codecs.getincrementaldecoder(encoding)()
        self._left = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: object) -> int:
        view = memoryview(buffer)  # type: ignore[arg-type]
        while not self._left:
            data = self._raw.read(PIECE_BYTES)
            try:
                self._left = self._decoder.decode(data, final=not data).encode()
            except UnicodeError as error:
                raise DataError(
                    f"is not valid {self.encoding} ({error}); convert the file to UTF-8.", file=self._file, reason="not-utf8"
                ) from None
            if not data:
                break
        size = min(len(view), len(self._left))
        view[:size], self._left = self._left[:size], self._left[size:]
        return size


def _utf_16(head: bytes) -> str | None:
    """Which UTF-16 this is, if it is: by its mark; without one, text that is mostly ASCII has a zero in every other byte."""
    if head[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
        return "utf-16"
    pairs = len(head) // 2
    for name, zeros, others in (("utf-16-le", head[1::2], head[::2]), ("utf-16-be", head[::2], head[1::2])):
        if pairs and zeros.count(0) >= 0.5 * pairs and not others.count(0):
            return name
    return None


@contextmanager
def open_bytes(file: Path) -> Iterator[BinaryIO]:
    """The bytes of a file, unpacked if gzipped (by content, not by name), and in UTF-8 if they are UTF-16."""
    try:
        if not stat.S_ISREG(file.stat().st_mode):
            raise DataError(
                "is not an ordinary file; give a file, a folder of files, or - for standard input.",
                file=file,
                reason="not-a-file",
            )
        raw = file.open("rb")
    except OSError as error:
        raise DataError(
            f"cannot be read ({error.strerror or error}); check the path and its permissions.", file=file, reason="unreadable"
        ) from None
    with raw:
        head = raw.peek(8)[:8]
        for magic, what in _NOT_TEXT.items():
            if head.startswith(magic):
                raise DataError(f"is {what}.", file=file, reason="not-text-file")
        stream: Any = raw
        if head.startswith(_GZIP):
            stream = io.BufferedReader(_Unpacked(raw, file), PIECE_BYTES)
        if (encoding := _utf_16(stream.peek(_HEAD)[:_HEAD])) is not None:
            stream = io.BufferedReader(Recoded(stream, encoding, file), PIECE_BYTES)
        yield stream


def to_text(data: bytes, file: Path | str, line: int) -> str:
    """Checked UTF-8. ``line`` is the number of the first line in ``data``; a mistake is reported on its own line."""
    if b"\0" in data:
        at = line + data.count(b"\n", 0, data.index(b"\0"))
        raise DataError("contains a NUL byte, so the file is damaged or not text.", file=file, line=at, reason="nul-byte")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        at = line + data.count(b"\n", 0, error.start)
        byte = data[error.start]
        raise DataError(
            f"the byte 0x{byte:02x} is not valid UTF-8; convert the file, for example with iconv -f WINDOWS-1252 -t UTF-8.",
            file=file,
            line=at,
            reason="not-utf8",
        ) from None


def lines(file: Path) -> Iterator[tuple[int, bytes]]:
    """(number from 1, bytes with the newline) of each line; a byte-order mark at the start is dropped."""
    with open_bytes(file) as stream:
        number = 0
        while line := stream.readline(MAX_DOCUMENT + 1):
            number += 1
            require_size(len(line), "the line", file, number)
            if number == 1:
                line = line.removeprefix(codecs.BOM_UTF8)
            yield number, line


def text_per_line(file: Path) -> Iterator[str]:
    """One text per line. Raises on an empty line in between, since answers are written line by line."""
    empty: int | None = None
    for number, line in lines(file):
        text = to_text(line, file, number).strip()
        if text and empty is not None:
            raise DataError(EMPTY_LINE, file=file, line=empty, reason="empty-line")
        if text:
            yield text
        elif empty is None:
            empty = number


def given_texts(texts: str | Sequence[str], what: str = "text", *, pairs: Any = None) -> list[str]:
    """Texts that a user gives as strings, one or several, without the space around them. ``what``: what a text is called.
    Refuses what is no string, empty ones and, where texts stand alone, second texts (``pairs``)."""
    given = [texts] if isinstance(texts, str) else list(texts)
    if pairs is not None:
        raise UsageError(f"This run takes one {what} at a time; drop --pair.", reason="no-pairs")
    if odd := [text for text in given if not isinstance(text, str)]:
        raise UsageError(f"A {what} must be a string, but {odd[0]!r} is {type(odd[0]).__name__}.", reason="not-text")
    if not given or not all(text.strip() for text in given):
        raise DataError(f"The {what} is empty; give at least one word.", reason=f"empty-{what}")
    return [text.strip() for text in given]


def require_size(size: int, what: str, file: Path | str, line: int) -> None:
    """Raises if something that must fit into memory is too long."""
    if size > MAX_DOCUMENT:
        shown = f"{MAX_DOCUMENT >> 20} MiB" if MAX_DOCUMENT >= 1 << 20 else f"{MAX_DOCUMENT} bytes"
        raise DataError(
            f"{what} is longer than {shown}; break the text into lines, or read the file as one document (data.document: "
            "file).",
            file=file,
            line=line,
            reason="too-long",
        )


def pieces(file: Path) -> Iterator[tuple[int, str]]:
    """(number of its first line, text) of consecutive chunks of about a million characters, cut between words."""
    line, left = 1, ""
    with open_bytes(file) as stream:
        rest = b""  # an incomplete character at the end of a read
        data = stream.read(PIECE_BYTES).removeprefix(codecs.BOM_UTF8)
        while data:
            following = stream.read(PIECE_BYTES)
            data = rest + data
            whole = codecs.utf_8_decode(data, "replace", not following)[1]  # bytes up to the end of the last whole character
            text = left + to_text(data[:whole], file, line + left.count("\n"))
            cut = cut_between_words(text) if following else len(text)
            if cut:
                yield line, text[:cut]
            line += text.count("\n", 0, cut)
            left, rest, data = text[cut:], data[whole:], following


def cut_between_words(text: str, reach: int = 4096) -> int:
    """A position near the end of ``text`` where any tokenizer can be restarted: after a letter or digit, before a space.

    If there is none within ``reach``, the end of the text: no language has words that long.
    """
    for place in range(len(text) - 1, max(len(text) - reach, 0), -1):
        if text[place].isspace() and text[place - 1].isalnum():
            return place
    return len(text)
