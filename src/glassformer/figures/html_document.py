"""A title, a style and a body -> one HTML document that needs nothing else; and the style that all our pages share.

Reports, looks and the local page are drawn with the same colours, type and tables (static/page.css). A content security
policy in the document forbids it to load anything. Light and dark by the reader's setting; prints on paper.
"""

from __future__ import annotations

import html
from importlib.resources import files
from string import Template

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


def shared_style() -> str:
    """What the pages have in common."""
    return _static("page.css")


def _static(name: str) -> str:
    return files("glassformer.figures").joinpath("static", name).read_text(encoding="utf-8")
