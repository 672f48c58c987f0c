"""The lessons of docs/course -> notebooks beside them: `python docs/make_notebooks.py`. A test holds them equal.

Text becomes text cells; a block that is a snippet's file becomes a code cell (`%%bash` for commands), so a notebook runs what
the lesson shows. No output is kept: what a reader sees is what her own machine gave. Needs nothing but Python.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

COURSE = Path(__file__).resolve().parent / "course"
SNIPPETS = Path(__file__).resolve().parent / "snippets"
LESSONS = (
    "1-attention",
    "2-tokens",
    "3-gpt",
    "4-positions",
    "5-leak",
    "6-knowledge",
    "7-labels",
    "8-looking",
    "9-scale",
    "10-blocks",
    "11-curves",
    "12-pairs",
)
BLOCK = re.compile(r"^```(?:python|bash)\n# docs/snippets/(\S+)\n(.*?)^```\n?", re.DOTALL | re.MULTILINE)


def blocks_of(text: str) -> list[tuple[str, str]]:
    """The snippets of a lesson: name and code."""
    return [(found[1], found[2]) for found in BLOCK.finditer(text)]


FIRST = """# As the lessons say, this writes to runs/ in the clone's top folder; opened elsewhere, to runs/ beside it.
# A run is never overwritten: to run a notebook again, delete what it wrote there.
import os
import sys
from pathlib import Path

if Path.cwd().parts[-2:] == ("docs", "course"):
    os.chdir("../..")
os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
print("This notebook writes to", Path("runs").resolve())
"""


def cells_of(text: str) -> list[dict[str, Any]]:
    """A lesson -> the cells of its notebook."""
    cells, at = [_cell("code", FIRST)], 0
    for found in BLOCK.finditer(text):
        cells.append(_cell("markdown", text[at : found.start()]))
        name, code = found[1], found[2]
        cells.append(_cell("code", f"%%bash\n{code}" if name.endswith(".sh") else code))
        for picture in re.findall(r"runs/\w+\.svg", code):
            cells.append(_cell("code", f'from IPython.display import SVG\n\nSVG("{picture}")'))
        at = found.end()
    cells.append(_cell("markdown", text[at:]))
    cells = [cell for cell in cells if cell["source"]]
    return [{"id": f"cell-{number}", **cell} for number, cell in enumerate(cells)]


def _cell(kind: str, text: str) -> dict[str, Any]:
    more: dict[str, Any] = {"execution_count": None, "outputs": []} if kind == "code" else {}
    return {"cell_type": kind, "metadata": {}, "source": text.strip().splitlines(keepends=True), **more}


def notebook_of(text: str) -> str:
    """A lesson -> the text of its notebook (nbformat 4.5)."""
    about = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }
    document = {"cells": cells_of(text), "metadata": about, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    for lesson in LESSONS:
        page = COURSE / f"{lesson}.md"
        page.with_suffix(".ipynb").write_text(notebook_of(page.read_text(encoding="utf-8")), encoding="utf-8")
