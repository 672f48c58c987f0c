"""What a page is made of: paragraphs, tables, figures, verdicts. Data only; ``html`` and ``markdown`` write it.

Text is text, never markup; only in sentences (paragraphs, banners, verdicts, captions, notes) is what stands between two
backticks shown as code. Any table or figure can be marked as tainted, with the reason, and every writer shows it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from matplotlib.figure import Figure

from glassformer.foundation.estimate import Estimate

_CODE = re.compile(r"(?<!`)`([^`]+)`(?!`)")

Cell = str | int | float | Estimate | None
"""What a table may hold. None is shown as a dash."""


@dataclass(frozen=True)
class Heading:
    text: str


@dataclass(frozen=True)
class Paragraph:
    text: str


@dataclass(frozen=True)
class Banner:
    """A highlighted sentence: a taint, a warning, or a note."""

    text: str
    kind: Literal["taint", "warning", "note"] = "warning"

    @property
    def word(self) -> str:
        """The prefix of the sentence."""
        return "Tainted: " if self.kind == "taint" else ""

    @property
    def role(self) -> str:
        """What it is for a screen reader."""
        return "note" if self.kind == "note" else "alert"


@dataclass(frozen=True)
class Table:
    """Rows under a header. ``tainted``: why its numbers may not be trusted, or None; ``sound``: the rows this is not about."""

    header: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    caption: str = ""
    note: str = ""
    tainted: str | None = None
    sound: frozenset[int] = frozenset()

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row) != len(self.header):
                raise ValueError(f"a row of {len(row)} cells under a header of {len(self.header)}: {list(row)}")

    def numeric_columns(self) -> list[bool]:
        """True for each column that holds numbers only: those are written to the right."""
        columns = [[row[i] for row in self.rows if row[i] is not None] for i in range(len(self.header))]
        return [bool(column) and all(_is_number(cell) for cell in column) for column in columns]


@dataclass(frozen=True)
class FigureBlock:
    """A picture with its caption; ``alt`` says in words what it shows, for those who cannot see it."""

    figure: Figure
    caption: str = ""
    alt: str = ""
    tainted: str | None = None


@dataclass(frozen=True)
class KeyValues:
    """Short facts: a name and a value each."""

    values: Mapping[str, Cell]
    caption: str = ""


@dataclass(frozen=True)
class Verdict:
    """A word about ``name``, and a sentence that continues after the name; ``before`` goes before the name.

    ``verdict``: better, worse, same, not decided or invalid; any other word is shown as it is.
    """

    name: str
    verdict: str
    sentence: str
    before: str = ""

    @classmethod
    def of(cls, name: str, verdict: str, sentence: str) -> Verdict:
        """From a whole sentence, in which the name stands somewhere."""
        escaped = re.escape(name)
        found = re.search(rf"(?<!\S){escaped}(?= )|^{escaped}(?=:)", sentence)
        if found is None:
            return cls(name, verdict, sentence)
        return cls(name, verdict, sentence[found.end() :].lstrip(), sentence[: found.start()].rstrip())


@dataclass(frozen=True)
class Verdicts:
    items: Sequence[Verdict]


@dataclass(frozen=True)
class Listing:
    """Text whose lines and spaces matter: a sample, a recipe."""

    text: str
    caption: str = ""


@dataclass(frozen=True)
class Fold:
    """Sections that are folded until opened; open in print."""

    title: str
    sections: Sequence[Block]


Block = Heading | Paragraph | Banner | Table | FigureBlock | KeyValues | Verdicts | Listing | Fold


@dataclass(frozen=True)
class Page:
    """One page. ``tainted``: why nothing on it may be trusted, or None."""

    title: str
    sections: Sequence[Block]
    subtitle: str = ""
    footer: str = ""
    tainted: str | None = None
    language: str = field(default="en", kw_only=True)


def spans(sentence: str) -> Iterator[tuple[str, bool]]:
    """The parts of a sentence in order, each with whether it is code: it stood between single backticks, which are gone."""
    for place, part in enumerate(_CODE.split(sentence)):  # what the pattern holds stands at the odd places
        if part:
            yield part, place % 2 == 1


def cell_text(cell: Cell) -> str:
    """How a cell reads in plain text: four significant digits, an interval in brackets, a dash for nothing."""
    if cell is None:
        return "–"
    if isinstance(cell, bool):
        return "yes" if cell else "no"
    if isinstance(cell, int):
        return f"{cell:,}"
    return str(Estimate(cell) if isinstance(cell, float) else cell)


def cell_parts(cell: Cell) -> list[str]:
    """The text of a cell, and, where it has one, its interval as a second text."""
    if isinstance(cell, Estimate) and cell.value is not None and cell.low is not None and cell.high is not None:
        return [str(Estimate(cell.value)), str(cell).partition(" ")[2]]
    return [cell_text(cell)]


WRITTEN_NUMBER = re.compile(r"[-+\u2212]?[\d,.]+(e[-+]?\d+)?( ?%| [kMGT]?B)?")
"""A number that was written out already, with its unit: ``4.05e+10``, ``4.75 MB``, ``12.5 %``."""


def _is_number(cell: Cell) -> bool:
    if isinstance(cell, str):
        return WRITTEN_NUMBER.fullmatch(cell) is not None
    return isinstance(cell, int | float | Estimate) and not isinstance(cell, bool)
