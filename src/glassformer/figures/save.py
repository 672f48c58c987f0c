"""A figure -> SVG text for a page, or a file chosen by its suffix.

The same figure gives the same bytes: no date, no random names. Nothing refers to anything outside.
"""

from __future__ import annotations

import html
import io
import re
import warnings
from pathlib import Path

from matplotlib.figure import Figure

from glassformer.figures.style import styled
from glassformer.foundation.errors import UsageError
from glassformer.foundation.files import write_atomically

SUFFIXES = (".svg", ".png", ".pdf")

# What a drawing of ours may carry besides the picture: nothing that differs between two drawings of the same figure.
_NO_DATE = {".svg": {"Date": None}, ".png": {}, ".pdf": {"CreationDate": None}}


def to_bytes(figure: Figure, suffix: str = ".svg", *, dpi: int = 150) -> bytes:
    """The figure as a whole file of the kind that ``suffix`` names."""
    stream = io.BytesIO()
    with styled(), warnings.catch_warnings():
        # tokens come in every script: a browser finds a font for them, a PNG shows a box
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        figure.savefig(stream, format=suffix.removeprefix("."), dpi=dpi, metadata=_NO_DATE[suffix])
    if suffix == ".svg":
        return printable(stream.getvalue().decode()).encode()
    return stream.getvalue()


def printable(text: str) -> str:
    """Characters that no document may hold (a sample of an untrained byte model is full of them) become a visible sign."""
    return re.sub(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff\ufffe\uffff]", "\ufffd", text)


def inline_svg(figure: Figure, *, label: str = "", prefix: str = "") -> str:
    """An ``<svg>`` element for a page. ``label`` is read to those who cannot see it.

    ``prefix`` goes before every name inside, because several figures of one page must not share names.
    """
    text = to_bytes(figure, ".svg").decode()
    text = re.sub(r"\s*(<metadata>.*?</metadata>|<!--.*?-->)", "", text[text.index("<svg") :], flags=re.DOTALL)
    if prefix:
        text = re.sub(r'\bid="', f'id="{prefix}', text)
        text = re.sub(r'((?:xlink:)?href="#|url\(#)', rf"\g<1>{prefix}", text)
    shown = f'role="img" aria-label="{html.escape(printable(label))}"' if label else 'aria-hidden="true"'
    return text.replace("<svg ", f"<svg {shown} ", 1).strip()


def save_figure(figure: Figure, file: str | Path, *, dpi: int = 150) -> Path:
    """Writes the figure as the kind its name ends with: .svg, .png or .pdf."""
    path = Path(file)
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        ending = f"ends with {path.suffix!r}" if path.suffix else "has no ending"
        raise UsageError(
            f"{path}: the name of a figure's file {ending}; use one of {', '.join(SUFFIXES)}.", reason="unknown-figure-format"
        )
    write_atomically(path, to_bytes(figure, suffix, dpi=dpi))
    return path
