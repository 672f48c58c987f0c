"""docs/recipes.md is what the configs declare, and says something about every key."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"


def generated(what: str) -> str:
    """In a process of its own: other tests may have registered variants."""
    program = f"import sys; sys.path.insert(0, {str(DOCS)!r}); import make_recipes; {what}"
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout


def test_page_is_what_the_generator_writes() -> None:
    page = generated("print(make_recipes.page(), end='')")
    assert (DOCS / "recipes.md").read_text(encoding="utf-8") == page, "run: python docs/make_recipes.py"


def test_every_key_has_a_type_and_a_meaning() -> None:
    program = (
        "make_recipes.list_variants(); print([r[0] for r in make_recipes.rows(make_recipes.Recipe) if not (r[1] and r[3])])"
    )
    assert generated(program).strip() == "[]"
