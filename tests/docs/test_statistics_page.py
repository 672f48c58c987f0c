"""docs/statistics.md: what its example prints, and the tables it repeats."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

from glassformer.study.planning.power import detectable

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "statistics.md").read_text()


def test_the_example_is_the_file_and_prints_what_the_page_shows(tmp_path, monkeypatch, capsys):
    snippet = DOCS / "snippets" / "verdict.py"
    assert f"# docs/snippets/verdict.py\n{snippet.read_text()}```" in PAGE
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(snippet))
    assert f"```text\n{capsys.readouterr().out}```" in PAGE
    assert (tmp_path / "statistics.svg").read_text().lstrip().startswith("<?xml")
    assert (DOCS / "statistics.svg").is_file()


def test_the_table_of_detectable_differences():
    rows = re.findall(r"^\| (\d+) \| ([\d.]+) \| ([\d.]+) \| ([\d.]+) \|$", PAGE, flags=re.MULTILINE)
    assert [int(row[0]) for row in rows] == [6, 8, 12, 16]
    for seeds, *sizes in rows:
        assert [float(size) for size in sizes] == pytest.approx([detectable(int(seeds), k) for k in (1, 3, 5)], abs=0.0051)
