"""docs/atlas.md: its results are what the records give."""

from __future__ import annotations

import importlib.util
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"


def test_results_are_those_of_the_records() -> None:
    spec = importlib.util.spec_from_file_location("make_atlas", DOCS / "make_atlas.py")
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    assert made.results() in (DOCS / "atlas.md").read_text(encoding="utf-8")
