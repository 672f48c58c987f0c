"""A title, a style and a body -> one HTML document that needs nothing else; and the style that all our pages share.

Reports, looks and the local page are drawn with the same colours, type and tables (static/page.css). A content security
policy in the document forbids it to load anything. Light and dark by the reader's setting; prints on paper.
"""

from __future__ import annotations

import html
import json
from importlib.resources import files
from string import Template
from typing import Any

from glassformer.figures.save import printable

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"


def html_document(*, title: str, body: str, style: str = "", scripts: bool = False, language: str = "en") -> str:
    """The whole document. ``body`` is markup; ``style`` comes after the shared one; ``scripts``: whether those inside run."""
    return Template(_static("page.html")).substitute(
        language=html.escape(language),
        policy=_POLICY + ("; script-src 'unsafe-inline'" if scripts else ""),
        title=html.escape(printable(title)),
        style=shared_style() + style,
        body=body,
    )


def drawn_document(name: str, data: Any, *, title: str, script: str, style: str) -> str:
    """A document that its own script draws: into ``<main id=NAME>``, from ``data``, which it holds as JSON in ``NAME-data``."""
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    held = printable(text).replace("<", "\\u003c")  # so that no text can close the script element
    body = (
        f'<main id="{name}" class="{name}"><h1>{html.escape(printable(title))}</h1>'
        "<noscript><p>This page is drawn by a script of its own; allow scripts to see it.</p></noscript></main>\n"
        f'<script type="application/json" id="{name}-data">{held}</script>\n<script type="module">\n{script}</script>'
    )
    return html_document(title=title, body=body, style=style, scripts=True)


def shared_style() -> str:
    """What the pages have in common."""
    return _static("page.css")


def _static(name: str) -> str:
    return files("glassformer.figures").joinpath("static", name).read_text(encoding="utf-8")
