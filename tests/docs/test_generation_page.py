"""docs/generation.md: its snippet runs and prints what the page says, and its figures are the code's."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from glassformer.generation import batch
from glassformer.generation.cuda import decoder

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "generation.md").read_text(encoding="utf-8")


def test_the_snippet_prints_what_the_page_says():
    snippet = DOCS / "snippets" / "generation.py"
    assert f"```python\n{snippet.read_text(encoding='utf-8')}```\n" in PAGE
    environment = os.environ | {"PYTHONPATH": str(DOCS.parent / "src")}
    done = subprocess.run([sys.executable, snippet], env=environment, capture_output=True, encoding="utf-8", timeout=120)
    assert done.returncode == 0, done.stderr
    assert f"It prints `{done.stdout.strip()}`" in PAGE


def test_the_figures_of_the_page_are_those_of_the_code():
    words = " ".join(PAGE.split())
    assert f"off by {batch.SLACK:.0e} of the largest score".replace("e-05", "e-5") in words
    assert f"{batch.CAUTION:.0f} times the largest difference" in words
    assert f"each {decoder.LENGTH_UNIT} positions" in words
    assert f"every {decoder.STRIDE} steps, every {decoder.WATCHED_STRIDE} when" in words
    assert batch.COMPARED == 2
    assert "first token of two sequences" in words
