"""A matplotlib figure -> SVG text, or an .svg or .png file; the same figure gives the same bytes.

Does not draw. HTML pages are built by those who own the words around a figure.
"""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING

from glassformer.foundation.errors import UsageError
from glassformer.foundation.files import write_atomically

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SUFFIXES = (".svg", ".png")


def svg_text(figure: Figure) -> str:
    """The figure as an <svg> element, without the XML prologue, so that it can stand inside a page."""
    text = _rendered(figure, "svg").decode()
    return text[text.index("<svg") :]


def save_figure(figure: Figure, path: Path) -> None:
    """Writes an .svg or .png file, whole or not at all."""
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        raise UsageError(
            f"{path}: a figure is written as {' or '.join(SUFFIXES)}, not as {suffix or 'a name without ending'!r}."
        )
    write_atomically(path, _rendered(figure, suffix[1:]))


def _rendered(figure: Figure, kind: str) -> bytes:
    import matplotlib as mpl  # half a second: only when something is drawn

    stream = io.BytesIO()
    metadata = {"Date": None} if kind == "svg" else {"Software": None}  # a date would change the bytes
    with mpl.rc_context({"svg.hashsalt": "glassformer", "svg.fonttype": "path"}):
        figure.savefig(stream, format=kind, dpi=150, metadata=metadata)
    return stream.getvalue()
