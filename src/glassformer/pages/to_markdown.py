"""A page -> Markdown text, for a README, an issue or a terminal.

Figures become files beside the text when a folder is given, and their captions otherwise.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import assert_never, final

from glassformer.figures.save import printable, save_figure
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
    Verdict,
    Verdicts,
    cell_text,
    spans,
)


def render_markdown(page: Page, *, figures: str | Path | None = None) -> str:
    """The page as Markdown. ``figures``: a folder beside the text for figure-1.svg and so on, which it then shows."""
    writer = _Writer(None if figures is None else Path(figures))
    tainted = writer.block(Banner(page.tainted, "taint")) if page.tainted else ""
    footer = f"---\n\n{_text(page.footer)}" if page.footer else ""
    return _parts(f"# {_text(page.title)}", _text(page.subtitle), tainted, *map(writer.block, page.sections), footer) + "\n"


@final
class _Writer:
    def __init__(self, folder: Path | None) -> None:
        self.folder, self.figures = folder, 0

    def block(self, block: Block) -> str:
        match block:
            case Heading(text):
                return f"## {_text(text)}"
            case Paragraph(text):
                return _sentence(text)
            case Banner(text):
                return f"> **{block.word}{_sentence(text)}**"
            case Table():
                return self._marked(_table(block), block.tainted)
            case FigureBlock():
                return self._marked(self._figure(block), block.tainted)
            case KeyValues(values, caption):
                lines = [f"- {_text(name)}: {_text(cell_text(value))}" for name, value in values.items()]
                return _parts(_sentence(caption), "\n".join(lines))
            case Verdicts(items):
                return "\n".join(map(_verdict, items))
            case Listing(text, caption):
                longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
                fence = "`" * max(3, longest + 1)
                return _parts(_sentence(caption), f"{fence}\n{printable(text)}\n{fence}")
            case Fold(title, sections):
                return _parts(f"### {_text(title)}", *map(self.block, sections))
            case _:
                assert_never(block)

    def _figure(self, block: FigureBlock) -> str:
        self.figures += 1
        caption = _sentence(block.caption)
        if self.folder is None:
            return f"*Figure {self.figures}: {caption or _text(block.alt)}*"
        file = save_figure(block.figure, self.folder / f"figure-{self.figures}.svg")
        return _parts(f"![{_text(block.alt or block.caption)}]({self.folder.name}/{file.name})", caption and f"*{caption}*")

    def _marked(self, content: str, tainted: str | None) -> str:
        return content if not tainted else _parts(self.block(Banner(tainted, "taint")), content)


def _parts(*parts: str) -> str:
    """Those that are not empty, a blank line between them."""
    return "\n\n".join(filter(None, parts))


def _table(block: Table) -> str:
    lines = [_row(block.header), _row(["---:" if n else "---" for n in block.numeric_columns()], plain=True)]
    lines += [_row([cell_text(cell) for cell in row]) for row in block.rows]
    return _parts(f"**{_sentence(block.caption)}**" if block.caption else "", "\n".join(lines), _sentence(block.note))


def _verdict(item: Verdict) -> str:
    sentence = " ".join(filter(None, [_sentence(item.before), f"**{_text(item.name)}**", _sentence(item.sentence)]))
    return f"- *{_text(item.verdict)}:* {sentence}"


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
