"""Looks -> one self-contained HTML file, or the JSON document that its drawing code reads.

The page has scripts and styles inlined and no external resources. The modules in static/ are plain ES modules, which the
local server serves as files; here they are concatenated into one script in the order of their imports, so their ``import``
and ``export`` statements must be single lines. The document has attention maps as one byte per weight, compressed:

    {"version": 1, "title": "...", "kind": "one" | "compare" | "film",
     "scale": {"light": ["#rrggbb", ...], "dark": [...]},           colours of weights from 0 to 1
     "views": [{"name": "step 400", "tokens": [...], "keys": [...],  what stands at each query and key
                "layers": L, "heads": H, "hidden": [3],
                "maps": base64 of gzip of uint8 [L][H][T][S] or null, round(255 * sqrt(weight))
                "no_maps": null | "why there are none",
                "losses": [null, 3.1, ...] | null,
                "lens": null | {"names": [...], "words": [layer][position][k], "shares": [layer][position][k]},
                "table": {"columns": ["entropy", ...], "rows": [[layer, head, number or null, ...]]},
                "faults": ["..."]}]}

The square root preserves small weights: a weight of 0.001 is the byte 8.
"""

from __future__ import annotations

import base64
import gzip
import html
import re
from collections.abc import Sequence
from importlib.resources import files
from typing import Any

import numpy as np

from glassformer.figures.attention import ON_DARK, ON_LIGHT
from glassformer.figures.html_document import drawn_document
from glassformer.lens.look import Look

VERSION = 1
SCALE = {"light": list(ON_LIGHT), "dark": list(ON_DARK)}
"""Colours of weights from 0 to 1."""
MOST_WORDS = 60_000
"""The most words of the logit lens in one document; if there are more, fewer per position."""
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


def render(looks: Sequence[Look], *, title: str, kind: str = "one") -> str:
    """The whole page: a single look, two side by side (``compare``), or a film."""
    data = document(looks, title=title, kind=kind)
    return drawn_document("look", data, title=title, script=one_script(), style=static("look.css"))


def notebook(look: Look) -> str:
    """The same inside a notebook, in an iframe that is as high as what it shows."""
    fit = "()=>{f.style.height=b.scrollHeight+24+'px'}"
    fit = f"const f=this,b=f.contentDocument.body,fit={fit};fit();new ResizeObserver(fit).observe(b)"
    page = html.escape(render([look], title=f"{look.name}, {len(look.tokens)} tokens"), quote=True)
    return f'<iframe srcdoc="{page}" onload="{fit}" style="width:100%;height:720px;border:0" title="attention maps"></iframe>'


def one_script() -> str:
    """The modules concatenated, without import and export statements."""
    parts = [re.sub(r"^import .*\n", "", static(name), flags=re.MULTILINE) for name in MODULES]
    return re.sub(r"^export ", "", "\n".join(parts), flags=re.MULTILINE)


def static(name: str) -> str:
    return files("glassformer.lens").joinpath("static", name).read_text(encoding="utf-8")


def document(looks: Sequence[Look], *, title: str, kind: str = "one") -> dict[str, Any]:
    """The whole document; ``kind``: one look, two to compare, or a film of several."""
    return {
        "version": VERSION,
        "title": title,
        "kind": kind,
        "scale": SCALE,
        "views": [view(look) for look in looks],
    }


def view(look: Look, *, whole: bool = True) -> dict[str, Any]:
    """One look for drawing. ``whole``: with its maps and the table of its heads; else these are fetched separately."""
    losses, dims = look.losses, look.network.dims
    found = look.no_attention is None
    return {
        "name": look.name,
        "tokens": look.queries,
        "keys": look.keys if found else look.queries,
        "layers": dims.layers,
        "heads": dims.heads,
        "hidden": look.hidden,
        "maps": packed(look.attention) if found and whole else None,
        "no_maps": look.no_attention,
        "losses": None if losses is None else [None if np.isnan(nats) else round(float(nats), 4) for nats in losses],
        "lens": _lens(look),
        "table": table(look) if found and whole else None,
        "faults": look.faults if found else [],
    }


def packed(attention: np.ndarray) -> str:
    """Weights between 0 and 1 -> base64 of gzip of one byte each."""
    return base64.b64encode(gzip.compress(quantised(attention).tobytes(), compresslevel=4, mtime=0)).decode()


def quantised(attention: np.ndarray) -> np.ndarray:
    """Weights as one byte each: ``round(255 * sqrt(weight))``."""
    rounded = np.nan_to_num(attention)  # a copy, worked on in place: maps can be large
    np.clip(rounded, 0.0, 1.0, out=rounded)
    np.sqrt(rounded, out=rounded)
    rounded *= 255
    return np.rint(rounded, out=rounded).astype(np.uint8)


def unpacked(text: str, shape: Sequence[int]) -> np.ndarray:
    """The inverse of ``packed``, within 0.004."""
    return (np.frombuffer(gzip.decompress(base64.b64decode(text)), np.uint8).reshape(shape) / 255.0) ** 2


def _lens(look: Look) -> dict[str, Any] | None:
    found = look.logit_lens
    if found is None:
        return None
    layers, positions = found.scores.shape[:2]
    ids, shares = found.top(max(1, min(5, MOST_WORDS // (layers * positions))))
    return {
        "names": list(found.names),
        "words": [[[look.output_name(token) for token in row] for row in layer] for layer in ids.tolist()],
        "shares": np.round(shares.astype(np.float64), 4).tolist(),
    }


def table(look: Look) -> dict[str, Any]:
    """The table of heads."""
    rows = look.head_table()
    columns = [name for name in rows[0] if name not in ("layer", "head")]
    return {"columns": columns, "rows": [[row["layer"], row["head"], *(row[name] for name in columns)] for row in rows]}
