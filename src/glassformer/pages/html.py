"""A page -> one HTML file that needs nothing else: no script, no font, no address outside itself.

All text is escaped; the frame and the style are those of all our pages (``figures.document``).
"""

from __future__ import annotations

import html
import re
from collections.abc import Sequence
from functools import singledispatchmethod
from typing import final

from glassformer.figures.document import html_document
from glassformer.figures.encode import inline_svg, printable
from glassformer.pages.page import (
    Banner,
    Block,
    Cell,
    FigureBlock,
    Fold,
    Heading,
    KeyValues,
    Listing,
    Page,
    Paragraph,
    Table,
    Verdicts,
    cell_parts,
    spans,
)


def render(page: Page) -> str:
    """The whole HTML document. The same page gives the same text."""
    return _Writer().document(page)


@final
class _Writer:
    """Writes one page; counts its figures and headings, whose names must differ."""

    def __init__(self) -> None:
        self.figures, self.headings = 0, 0

    def document(self, page: Page) -> str:
        parts = [
            f"<main>\n<header><h1>{_text(page.title)}</h1>"
            + (f'<p class="subtitle">{_text(page.subtitle)}</p>' if page.subtitle else "")
            + "</header>",
            self.block(Banner(page.tainted, "taint")) if page.tainted else "",
            _contents(page),
            "\n".join(self.block(section) for section in page.sections),
            f"<footer>{_text(page.footer)}</footer>" if page.footer else "",
            "</main>",
        ]
        return html_document(title=page.title, body="\n".join(parts), language=page.language)

    @singledispatchmethod
    def block(self, block: Block) -> str:
        raise TypeError(f"a page has no block of type {type(block).__name__}")

    @block.register
    def _heading(self, block: Heading) -> str:
        self.headings += 1
        return f'<h2 id="part-{self.headings}">{_text(block.text)}</h2>'

    @block.register
    def _paragraph(self, block: Paragraph) -> str:
        return f"<p>{_sentence(block.text)}</p>"

    @block.register
    def _banner(self, block: Banner) -> str:
        word = f"<strong>{block.word}</strong>"
        return f'<p class="banner {block.kind}" role="{block.role}">{word}{_sentence(block.text)}</p>'

    @block.register
    def _table(self, block: Table) -> str:
        numeric = block.numeric_columns()
        head = "".join(f'<th{_number_class(n)} scope="col">{_text(name)}</th>' for name, n in zip(block.header, numeric))
        rows = "\n".join(
            ('<tr class="sound">' if place in block.sound else "<tr>")
            + "".join(f"<td{_number_class(n)}>{_cell(cell)}</td>" for cell, n in zip(row, numeric))
            + "</tr>"
            for place, row in enumerate(block.rows)
        )
        caption = f"<caption>{_sentence(block.caption)}</caption>" if block.caption else ""
        note = f'<p class="small">{_sentence(block.note)}</p>' if block.note else ""
        table = (
            f'<div class="wide"><table>{caption}<thead><tr>{head}</tr></thead>\n<tbody>\n{rows}\n</tbody></table></div>{note}'
        )
        return self._marked(table, block.tainted)

    @block.register
    def _figure(self, block: FigureBlock) -> str:
        self.figures += 1
        svg = inline_svg(block.figure, label=block.alt or block.caption, prefix=f"figure{self.figures}-")
        caption = f"<figcaption>{_sentence(block.caption)}</figcaption>" if block.caption else ""
        return self._marked(f'<figure><div class="picture">{svg}</div>{caption}</figure>', block.tainted)

    @block.register
    def _key_values(self, block: KeyValues) -> str:
        caption = f'<p class="small">{_sentence(block.caption)}</p>' if block.caption else ""
        pairs = "".join(f"<div><dt>{_text(name)}</dt><dd>{_cell(value)}</dd></div>" for name, value in block.values.items())
        return f'{caption}<dl class="facts">{pairs}</dl>'

    @block.register
    def _verdicts(self, block: Verdicts) -> str:
        items = "".join(
            f'<li><span class="verdict {_word_class(item.verdict)}">{_text(item.verdict)}</span> '
            f"{_sentence(item.before + ' ' if item.before else '')}<strong>{_text(item.name)}</strong> "
            f"{_sentence(item.sentence)}</li>"
            for item in block.items
        )
        return f'<ul class="verdicts">{items}</ul>'

    @block.register
    def _listing(self, block: Listing) -> str:
        caption = f"<figcaption>{_sentence(block.caption)}</figcaption>" if block.caption else ""
        return f'<figure class="listing"><pre tabindex="0">{_text(block.text)}</pre>{caption}</figure>'

    @block.register
    def _fold(self, block: Fold) -> str:
        inside = "\n".join(self.block(section) for section in block.sections)
        return f"<details><summary>{_text(block.title)}</summary>\n{inside}\n</details>"

    def _marked(self, content: str, tainted: str | None) -> str:
        if not tainted:
            return content
        return f'<section class="tainted">{self.block(Banner(tainted, "taint"))}{content}</section>'


def _contents(page: Page) -> str:
    """Links to the headings, when there are enough to lose one's way."""
    headings = _headings(page.sections)
    if len(headings) < 3:
        return ""
    links = "".join(f'<li><a href="#part-{number}">{_text(text)}</a></li>' for number, text in enumerate(headings, start=1))
    return f'<nav aria-label="Contents"><ol>{links}</ol></nav>\n'


def _headings(sections: Sequence[Block]) -> list[str]:
    """All headings in the order they are written, also those inside folds."""
    found: list[str] = []
    for section in sections:
        if isinstance(section, Heading):
            found.append(section.text)
        elif isinstance(section, Fold):
            found.extend(_headings(section.sections))
    return found


def _text(text: str) -> str:
    return html.escape(printable(text))


def _sentence(text: str) -> str:
    return "".join(f"<code>{_text(part)}</code>" if code else _text(part) for part, code in spans(text))


def _cell(cell: Cell) -> str:
    value, *interval = map(_text, cell_parts(cell))
    return value + "".join(f' <span class="interval">{one}</span>' for one in interval)


def _number_class(numeric: bool) -> str:
    return ' class="number"' if numeric else ""


def _word_class(word: str) -> str:
    return re.sub(r"[^a-z]+", "-", word.lower()).strip("-")
