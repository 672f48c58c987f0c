"""docs/performance.md: every table is the table of a saved measurement, and every saved measurement has its table."""

from __future__ import annotations

import json
import re
from pathlib import Path

from tests.bench_scripts import load_script

DOCS = Path(__file__).parents[2] / "docs"
MEASURED = sorted((DOCS / "measurements").glob("bench-*.json"))
PAGE = (DOCS / "performance.md").read_text(encoding="utf-8")


def test_every_table_is_a_measurement():
    assert MEASURED
    markdown = load_script("beside").markdown
    tables = [markdown(json.loads(file.read_text(encoding="utf-8"))) for file in MEASURED]
    for file, table in zip(MEASURED, tables):
        assert table in PAGE, f"docs/performance.md does not show {file.name}; python bench/beside.py table prints it"
    assert len(re.findall(r"^\| (?:program|mixer|command) \|", PAGE, re.MULTILINE)) == len(tables)
