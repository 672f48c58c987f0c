"""A page -> Markdown text, for a README, an issue or a terminal.

Figures become files beside the text when a folder is given, and their captions otherwise.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import singledispatchmethod
from pathlib import Path
from typing import final

from glassformer.figures.encode import printable, save_figure
from glassformer.pages.page import (
    Banner,
    Block,
    FigureBlock,
    Fold,
    Heading,
    KeyValues,
    Listing,
    Page,
    Paragraph,
    Table,
    Verdicts,
    cell_text,
    spans,
)


def render_markdown(page: Page, *, figures: str | Path | None = None) -> str:
    """The page as Markdown. ``figures``: a folder beside the text for figure-1.svg and so on, which it then shows."""
    writer = _Writer(None if figures is None else Path(figures))
    parts = [f"# {_text(page.title)}"]
    if page.subtitle:
        parts.append(_text(page.subtitle))
    if page.tainted:
        parts.append(writer.block(Banner(page.tainted, "taint")))
    parts.extend(writer.block(section) for section in page.sections)
    if page.footer:
        parts.append(f"---\n\n{_text(page.footer)}")
    return "\n\n".join(parts) + "\n"


@final
class _Writer:
    def __init__(self, folder: Path | None) -> None:
        self.folder, self.figures = folder, 0

    @singledispatchmethod
    def block(self, block: Block) -> str:
        raise TypeError(f"a page has no block of type {type(block).__name__}")

    @block.register
    def _heading(self, block: Heading) -> str:
        return f"## {_text(block.text)}"

    @block.register
    def _paragraph(self, block: Paragraph) -> str:
        return _sentence(block.text)

    @block.register
    def _banner(self, block: Banner) -> str:
        return f"> **{block.word}{_sentence(block.text)}**"

    @block.register
    def _table(self, block: Table) -> str:
        numeric = block.numeric_columns()
        lines = [_row(block.header), _row(["---:" if n else "---" for n in numeric], plain=True)]
        lines += [_row([cell_text(cell) for cell in row]) for row in block.rows]
        caption = f"**{_sentence(block.caption)}**" if block.caption else ""
        return self._marked("\n\n".join(filter(None, [caption, "\n".join(lines), _sentence(block.note)])), block.tainted)

    @block.register
    def _figure(self, block: FigureBlock) -> str:
        self.figures += 1
        caption = _sentence(block.caption)
        if self.folder is None:
            return self._marked(f"*Figure {self.figures}: {caption or _text(block.alt)}*", block.tainted)
        file = save_figure(block.figure, self.folder / f"figure-{self.figures}.svg")
        picture = f"![{_text(block.alt or block.caption)}]({self.folder.name}/{file.name})"
        return self._marked("\n\n".join(filter(None, [picture, caption and f"*{caption}*"])), block.tainted)

    @block.register
    def _key_values(self, block: KeyValues) -> str:
        lines = [f"- {_text(name)}: {_text(cell_text(value))}" for name, value in block.values.items()]
        return "\n\n".join(filter(None, [_sentence(block.caption), "\n".join(lines)]))

    @block.register
    def _verdicts(self, block: Verdicts) -> str:
        told = (
            (i.verdict, " ".join(filter(None, [_sentence(i.before), f"**{_text(i.name)}**", _sentence(i.sentence)])))
            for i in block.items
        )
        return "\n".join(f"- *{_text(verdict)}:* {sentence}" for verdict, sentence in told)

    @block.register
    def _listing(self, block: Listing) -> str:
        longest = max((len(run) for run in re.findall(r"`+", block.text)), default=0)
        fence = "`" * max(3, longest + 1)
        return "\n\n".join(filter(None, [_sentence(block.caption), f"{fence}\n{printable(block.text)}\n{fence}"]))

    @block.register
    def _fold(self, block: Fold) -> str:
        return "\n\n".join([f"### {_text(block.title)}", *(self.block(section) for section in block.sections)])

    def _marked(self, content: str, tainted: str | None) -> str:
        return content if not tainted else f"{self.block(Banner(tainted, 'taint'))}\n\n{content}"


def _row(cells: Sequence[str], *, plain: bool = False) -> str:
    return "| " + " | ".join(cells if plain else [_text(cell) for cell in cells]) + " |"


def _text(text: str) -> str:
    """One line in which no character means anything but itself."""
    return _escaped(_one_line(text))


def _sentence(text: str) -> str:
    """The same, but code stays code: between its backticks Markdown gives no character a meaning."""
    return "".join(f"`{part}`" if code else _escaped(part) for part, code in spans(_one_line(text)))


def _one_line(text: str) -> str:
    return " ".join(printable(text).split())


def _escaped(text: str) -> str:
    return re.sub(r"([\\`*_\[\]<>|#~])", r"\\\1", text)
