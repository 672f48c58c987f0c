"""A report's page -> plain JSON that the browser draws: the same paragraphs, tables, verdicts and figures, as data.

Figures become SVG pictures in data addresses, drawn by the code of the reports. Text stays text.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any

from glassformer.figures.save import to_bytes
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
    cell_parts,
    cell_text,
)


def page_to_dict(page: Page) -> dict[str, Any]:
    """The whole page."""
    return {
        "title": page.title,
        "subtitle": page.subtitle,
        "footer": page.footer,
        "tainted": _taint(page.tainted),
        "blocks": blocks_to_dicts(page.sections),
    }


def blocks_to_dicts(blocks: Sequence[Block]) -> list[dict[str, Any]]:
    return [_to_dict(block) for block in blocks]


def _to_dict(block: Block) -> dict[str, Any]:
    match block:
        case Heading() | Paragraph() | Listing():
            return {"kind": type(block).__name__.lower(), **vars(block)}
        case Banner(text, kind):
            return {"kind": "banner", "text": text, "tone": kind, "word": block.word, "role": block.role}
        case Table():
            return _table(block)
        case FigureBlock():
            return {
                "kind": "figure",
                "picture": picture_address(block.figure),
                "caption": block.caption,
                "alt": block.alt or block.caption,
                "tainted": _taint(block.tainted),
            }
        case KeyValues(values, caption):
            pairs = [[name, cell_text(value)] for name, value in values.items()]
            return {"kind": "facts", "facts": pairs, "caption": caption}
        case Verdicts(items):
            return {"kind": "verdicts", "items": [vars(one) for one in items]}
        case Fold(title, sections):
            return {"kind": "fold", "title": title, "blocks": blocks_to_dicts(sections)}


def _taint(reason: str | None) -> dict[str, Any] | None:
    """The warning banner of tainted content."""
    return _to_dict(Banner(reason, "taint")) if reason else None


def _table(block: Table) -> dict[str, Any]:
    return {
        "kind": "table",
        "header": list(block.header),
        "numeric": block.numeric_columns(),
        "rows": [[cell_parts(cell) for cell in row] for row in block.rows],
        "caption": block.caption,
        "note": block.note,
        "tainted": _taint(block.tainted),
        "sound": sorted(block.sound),
    }


def picture_address(figure: Any) -> str:
    """A figure as a ``data:`` address of an SVG file."""
    return "data:image/svg+xml;base64," + base64.b64encode(to_bytes(figure, ".svg")).decode()
