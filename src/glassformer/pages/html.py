"""A page -> one HTML file that needs nothing else: no script, no font, no address outside itself.

All text is escaped; the frame and the style are those of all our pages (``figures.html_document``).
"""

from __future__ import annotations

import html
import re
from collections.abc import Sequence
from typing import assert_never, final

from glassformer.figures.html_document import html_document
from glassformer.figures.save import inline_svg, printable
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
    Verdict,
    Verdicts,
    cell_parts,
    spans,
)


def render(page: Page) -> str:
    """The whole HTML document. The same page gives the same text."""
    return _Writer().document(page)


def fragment(blocks: Sequence[Block]) -> str:
    """Blocks without a document around them, as a notebook shows them."""
    return "\n".join(map(_Writer().block, blocks))


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
            "\n".join(map(self.block, page.sections)),
            f"<footer>{_text(page.footer)}</footer>" if page.footer else "",
            "</main>",
        ]
        return html_document(title=page.title, body="\n".join(parts), language=page.language)

    def block(self, block: Block) -> str:
        match block:
            case Heading(text):
                self.headings += 1
                return f'<h2 id="part-{self.headings}">{_text(text)}</h2>'
            case Paragraph(text):
                return f"<p>{_sentence(text)}</p>"
            case Banner(text, kind):
                return f'<p class="banner {kind}" role="{block.role}"><strong>{block.word}</strong>{_sentence(text)}</p>'
            case Table():
                return self._marked(_table(block), block.tainted)
            case FigureBlock():
                self.figures += 1
                svg = inline_svg(block.figure, label=block.alt or block.caption, prefix=f"figure{self.figures}-")
                picture = f'<figure><div class="picture">{svg}</div>{_captioned("figcaption", block.caption)}</figure>'
                return self._marked(picture, block.tainted)
            case KeyValues(values, caption):
                pairs = "".join(f"<div><dt>{_text(name)}</dt><dd>{_cell(value)}</dd></div>" for name, value in values.items())
                return f'{_small(caption)}<dl class="facts">{pairs}</dl>'
            case Verdicts(items):
                return f'<ul class="verdicts">{"".join(map(_verdict, items))}</ul>'
            case Listing(text, caption):
                pre = f'<pre tabindex="0">{_text(text)}</pre>'
                return f'<figure class="listing">{pre}{_captioned("figcaption", caption)}</figure>'
            case Fold(title, sections):
                inside = "\n".join(map(self.block, sections))
                return f"<details><summary>{_text(title)}</summary>\n{inside}\n</details>"
            case _:
                assert_never(block)

    def _marked(self, content: str, tainted: str | None) -> str:
        if not tainted:
            return content
        return f'<section class="tainted">{self.block(Banner(tainted, "taint"))}{content}</section>'


def _table(block: Table) -> str:
    numeric = block.numeric_columns()
    head = "".join(f'<th{_number_class(n)} scope="col">{_text(name)}</th>' for name, n in zip(block.header, numeric))
    rows = "\n".join(
        ('<tr class="sound">' if place in block.sound else "<tr>")
        + "".join(f"<td{_number_class(n)}>{_cell(cell)}</td>" for cell, n in zip(row, numeric))
        + "</tr>"
        for place, row in enumerate(block.rows)
    )
    caption = _captioned("caption", block.caption)
    table = f"<table>{caption}<thead><tr>{head}</tr></thead>\n<tbody>\n{rows}\n</tbody></table>"
    return f'<div class="wide">{table}</div>{_small(block.note)}'


def _verdict(item: Verdict) -> str:
    before = _sentence(item.before + " " if item.before else "")
    kind = re.sub(r"[^a-z]+", "-", item.verdict.lower()).strip("-")
    word = f'<span class="verdict {kind}">{_text(item.verdict)}</span>'
    return f"<li>{word} {before}<strong>{_text(item.name)}</strong> {_sentence(item.sentence)}</li>"


def _captioned(element: str, text: str) -> str:
    return f"<{element}>{_sentence(text)}</{element}>" if text else ""


def _small(text: str) -> str:
    return f'<p class="small">{_sentence(text)}</p>' if text else ""


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
