"""Looks -> one self-contained HTML file: scripts and styles inlined, no external resources.

The modules in static/ are plain ES modules, which the local server serves as files; here they are concatenated into one
script in the order of their imports, so their ``import`` and ``export`` statements must be single lines.
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Sequence
from importlib.resources import files

from glassformer.figures.encode import printable
from glassformer.figures.html_document import html_document
from glassformer.lens.document import document
from glassformer.lens.look import Look

MODULES = (
    "colours.js",
    "unpack.js",
    "maps.js",
    "tokens.js",
    "tables.js",
    "view.js",
    "film.js",
    "grid.js",
    "start.js",
    "own.js",
)
"""In the order of their dependencies."""
_NO_SCRIPT = "This page draws its maps with a script of its own; allow scripts to see them."


def render(looks: Sequence[Look], *, title: str, kind: str = "one") -> str:
    """The whole page: a single look, two side by side (``compare``), or a film."""
    data = json.dumps(document(looks, title=title, kind=kind), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    held = printable(data).replace("<", "\\u003c")  # so that no text can close the script element
    body = (
        f'<main id="look" class="look"><h1>{html.escape(printable(title))}</h1><p class="note">{_NO_SCRIPT}</p></main>\n'
        f'<script type="application/json" id="look-data">{held}</script>\n<script type="module">\n{one_script()}</script>'
    )
    return html_document(title=title, body=body, style=static("look.css"), scripts=True)


def notebook(look: Look) -> str:
    """The same inside a notebook, in an iframe."""
    page = html.escape(render([look], title=f"{look.name}, {len(look.tokens)} tokens"), quote=True)
    return f'<iframe srcdoc="{page}" style="width:100%;height:720px;border:0" title="attention maps"></iframe>'


def one_script() -> str:
    """The modules concatenated, without import and export statements."""
    parts = [re.sub(r"^import .*\n", "", static(name), flags=re.MULTILINE) for name in MODULES]
    return re.sub(r"^export ", "", "\n".join(parts), flags=re.MULTILINE)


def static(name: str) -> str:
    return files("glassformer.lens").joinpath("static", name).read_text(encoding="utf-8")
