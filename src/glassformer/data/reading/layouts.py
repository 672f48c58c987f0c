"""csv and tsv files -> rows of cells with line numbers; how each file is written is found in its first rows.

Found are the character between columns (of a csv file commas, semicolons, tabs or bars, or what a spreadsheet's line ``sep=;``
says), whether quotes stand around cells (in a csv file they do; in a tsv file only if nothing else makes sense), and
Windows-1252 (``readers`` knows UTF-16). Python's csv module does the reading: pandas and pyarrow name fewer wrong lines
(docs/lab/labels-and-knowledge.md). Does not know what a column is for.
"""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

from glassformer.data.reading import readers
from glassformer.data.reading.readers import Recoded, lines, open_bytes, require_size, to_text
from glassformer.foundation.errors import DataError

DELIMITERS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "vertical bars"}
WINDOWS_1252 = "cp1252"
_SAMPLE = 1 << 18  # bytes of a file that are looked at
_FEWEST_FOREIGN = 3  # bytes of another encoding; fewer are rather damage in UTF-8
_ALIKE = 0.9  # share of the rows that must have as many columns as the header
_SEPARATOR_LINE = re.compile(r"\s*\"?sep=(.)\"?[ \t]*\r?\n", re.IGNORECASE)
_UTF_8 = re.compile(rb"[\xc2\xc3][\x80-\xbf]|\xe2\x80[\x80-\xbf]")  # accented letters and curly quotes; in Windows-1252: Ã¼
_OTHER_SCRIPT = re.compile(rb"[\xc0-\xff]{4}|(?:[\x82\x83][\x40-\xfc]){3}")
"""In no western word: four accented letters in a row, as Russian, Greek or Korean would have them, and Japanese kana."""

SeparatedKind = Literal["csv", "tsv"]
Cells = list[str]


@dataclass(frozen=True)
class Layout:
    """How a csv or tsv file is written: the character between columns, whether quotes stand around cells (``spaced``: after
    spaces too), and the encoding (None: UTF-8).

    ``says_so``: its first line names the character, and the header is the second. ``word``: one that another encoding would
    spell in another way.
    """

    delimiter: str = ","
    quoted: bool = True
    spaced: bool = False
    encoding: str | None = None
    says_so: bool = False
    word: str | None = None

    @property
    def form(self) -> dict[str, Any]:
        """Settings of Python's csv module."""
        quotes = {} if self.quoted else {"quoting": csv.QUOTE_NONE, "quotechar": None}
        return {"delimiter": self.delimiter, "skipinitialspace": self.spaced, **quotes}

    def note(self, name: str, kind: SeparatedKind) -> str | None:
        """A sentence about what is not as usual in a file of this kind."""
        usual = USUAL[kind]
        between = f"{DELIMITERS.get(self.delimiter, repr(self.delimiter))} between its columns"
        found = [between] * (self.delimiter != usual.delimiter)
        found += ["quotes around its cells"] * (self.quoted != usual.quoted)
        found += ["spaces before its quotes"] * self.spaced
        found += [f"the encoding {self.encoding}"] * (self.encoding is not None)
        doubt = f" If it does not say {self.word!r}, save it as UTF-8." if self.word is not None else ""
        return f"{name} was read with {' and '.join(found)}.{doubt}" if found else None


USUAL: dict[SeparatedKind, Layout] = {"csv": Layout(), "tsv": Layout("\t", quoted=False)}


def layout_of(file: Path, kind: SeparatedKind) -> Layout:
    """The layout of a file, from its first rows."""
    try:
        facts = file.stat()
    except OSError:  # reported where the file is read
        return USUAL[kind]
    return _layout(file, kind, facts.st_size, facts.st_mtime_ns)


@lru_cache(maxsize=64)
def _layout(file: Path, kind: SeparatedKind, size: int, changed: int) -> Layout:
    with open_bytes(file) as stream:
        sample = stream.read(_SAMPLE)
        recoded = getattr(stream, "raw", None)
    whole = len(sample) < _SAMPLE
    sample = sample if whole else sample[: sample.rfind(b"\n") + 1]
    found = USUAL[kind]
    if isinstance(recoded, Recoded):
        found = replace(found, encoding=recoded.encoding)
    elif _is_windows_1252(sample):
        word = re.search(r"[^\W\d_]*[^\W\d_\x00-\x7f][^\W\d_]*", sample.decode(WINDOWS_1252))
        found = replace(found, encoding=WINDOWS_1252, word=word and word[0])
    eight_bits = WINDOWS_1252 if found.encoding == WINDOWS_1252 else "utf-8"
    text = sample.decode(eight_bits, "replace").removeprefix("\ufeff")
    if (named := _SEPARATOR_LINE.match(text)) is not None:
        return replace(found, delimiter=named[1], says_so=True)
    if kind == "tsv":
        return replace(found, quoted=_has_quotes(text, whole=whole))
    for delimiter in DELIMITERS:
        one = replace(found, delimiter=delimiter)
        rows = _rows(text, one, whole=whole)
        if any(cell.startswith(" ") and cell.lstrip(" ").startswith('"') for row in rows for cell in row):
            one = replace(one, spaced=True)
            rows = _rows(text, one, whole=whole)
        if _alike(rows) >= _ALIKE and len(rows[0]) > 1:
            return one
    return found


def _is_windows_1252(sample: bytes) -> bool:
    """Whether the bytes beyond ASCII can be what spreadsheets write, and are neither UTF-8 nor another script."""
    try:
        sample.decode("utf-8")
        return False
    except UnicodeDecodeError:
        pass
    foreign = sample.translate(None, bytes(range(128)))
    if len(foreign) < _FEWEST_FOREIGN or _UTF_8.search(sample) or _OTHER_SCRIPT.search(sample):
        return False
    try:
        foreign.decode(WINDOWS_1252)
    except UnicodeDecodeError:
        return False
    return True


def _rows(text: str, layout: Layout, *, whole: bool, strict: bool = False) -> list[Cells]:
    """The rows of a sample as far as they can be read; the last one only if the sample is the ``whole`` file."""
    found = []
    try:
        for row in csv.reader(io.StringIO(text, newline=""), strict=strict, **layout.form):
            if row:
                found.append(row)
    except csv.Error as error:
        if strict and (whole or "unexpected end" not in str(error)):  # Python's words for a quote that the sample cuts off
            return []
        return found
    return found if whole else found[:-1]


def _alike(rows: list[Cells]) -> float:
    """The share of the rows that have as many columns as the first."""
    return sum(len(row) == len(rows[0]) for row in rows) / len(rows) if rows else 0.0


def _has_quotes(text: str, *, whole: bool) -> bool:
    """Whether quotes stand around the cells of a tsv file: it can be read so, and otherwise more rows would have another width
    than the first, quotes within cells would be doubled, or the whole header would be in quotes."""
    plain, quoted = (_rows(text, Layout("\t", quoted=quotes), whole=whole, strict=quotes) for quotes in (False, True))
    if _alike(quoted) < _ALIKE:
        return False
    in_quotes = [[cell[1:-1] if cell[:1] == cell[-1:] == '"' else None for cell in row] for row in plain]
    doubled = any('""' in cell for row in in_quotes for cell in row if cell is not None)
    return _alike(quoted) > _alike(plain) or doubled or None not in in_quotes[0]


def separated_rows(file: Path, kind: SeparatedKind) -> Iterator[tuple[int, Cells | DataError]]:
    """(line, cells) of each row that is not empty, the header too; of one that cannot be read, the error about it.

    A cell in quotes may span lines; one that never closes ends at the limit for a document, not at the end of the file.
    """
    csv.field_size_limit(max(csv.field_size_limit(), readers.MAX_DOCUMENT))  # the module's own limit is 128 KiB
    layout, begins, size = layout_of(file, kind), 1, 0
    bad: DataError | None = None  # not valid text: the row is bad, but reading continues

    def counted() -> Iterator[str]:
        nonlocal begins, size, bad
        for number, line in lines(file):
            if number == 1 and layout.says_so:
                continue
            if not size:
                begins = number
            size += len(line)
            require_size(size, "the row (is a quote left open?)", file, begins)
            line = line.removeprefix(codecs.BOM_UTF8)  # where files were joined, another mark
            try:
                yield _decoded(line, file, number) if layout.encoding == WINDOWS_1252 else to_text(line, file, number)
            except DataError as error:
                bad = error
                yield line.replace(b"\0", b"").decode("utf-8", "replace")

    reader = csv.reader(counted(), strict=True, **layout.form)
    while True:
        size, bad = 0, None
        try:
            row = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            returns = "new-line character" in str(error)  # Python's words for it
            returned = "a carriage return alone ends or parts a line, as in old Mac files; save it with line feeds."
            rule = returned if returns else f"is not valid csv ({error}); check its quotes."
            yield begins, DataError(rule, file=file, line=begins, reason="not-csv")
            continue
        if bad is not None or row:
            yield begins, bad or row


def _decoded(line: bytes, file: Path, number: int) -> str:
    """A line of Windows-1252."""
    if _UTF_8.search(line):
        rule = "is in UTF-8, but the file begins in Windows-1252; save all of it as UTF-8."
        raise DataError(rule, file=file, line=number, reason="two-encodings")
    try:
        return to_text(line.decode(WINDOWS_1252).encode(), file, number)
    except UnicodeDecodeError as error:
        rule = f"the byte 0x{line[error.start]:02x} is not valid Windows-1252; save the file as UTF-8."
        raise DataError(rule, file=file, line=number, reason="not-utf8") from None
