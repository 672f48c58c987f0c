"""Writes docs/variants.md: every variant of every slot with its one line, as the slots list them."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path

from glassformer.foundation.registry import Slot
from glassformer.recipe import list_variants

PAGE = Path(__file__).with_name("variants.md")

TOP = """# Every variant of every slot

Written by `python docs/make_variants.py` from the classes themselves; a test holds it equal to what
`glassformer recipes` lists. A name goes into a recipe as it stands (`model.mixer: argmax`), or with settings as a mapping
(`model.mixer: {kind: argmax, straight_through: true}`). A variant of your own: [plugins](plugins.md).
"""


def page() -> str:
    """The whole page."""
    parts = [TOP]
    for path, rows in groupby(sorted(list_variants(), key=lambda row: row["slot"]), key=lambda row: row["slot"]):
        lines = [f"| `{row['name']}` | {row['about'].replace('|', chr(92) + '|')} |" for row in rows]
        parts.append(
            "\n".join([f"## `{path}`: {Slot.every[path].about}\n", "| name | what it is |", "|---|---|", *lines]) + "\n"
        )
    return "\n".join(parts)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
