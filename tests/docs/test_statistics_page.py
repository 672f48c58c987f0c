"""docs/statistics.md and its long form: what the example prints, the interval by hand, the tables they repeat."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from glassformer.study.planning.power import detectable
from glassformer.study.statistics.two_way import two_way_effects

DOCS = Path(__file__).parents[2] / "docs"
PAGE, LONG = ((DOCS / name).read_text() for name in ("statistics.md", "statistics-long.md"))


def test_the_example_is_the_file_and_prints_what_the_page_shows(tmp_path, monkeypatch, capsys):
    snippet = DOCS / "snippets" / "verdict.py"
    assert f"# docs/snippets/verdict.py\n{snippet.read_text()}```" in LONG
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(snippet))
    assert f"```text\n{capsys.readouterr().out}```" in LONG
    assert (tmp_path / "statistics.svg").read_text().lstrip().startswith("<?xml")
    assert (DOCS / "statistics.svg").is_file()


def test_the_table_of_detectable_differences():
    rows = re.findall(r"^\| (\d+) \| ([\d.]+) \| ([\d.]+) \| ([\d.]+) \|$", PAGE, flags=re.MULTILINE)
    assert [int(row[0]) for row in rows] == [6, 8, 12, 16]
    for seeds, *sizes in rows:
        assert [float(size) for size in sizes] == pytest.approx([detectable(int(seeds), k) for k in (1, 3, 5)], abs=0.0051)


def test_the_interval_by_hand():
    cells = re.findall(r"^\| seed \d \| (-[\d.]+) \| (-[\d.]+) \| (-[\d.]+) \|$", PAGE, flags=re.MULTILINE)
    table = np.array(cells, dtype=float)
    found = two_way_effects(table[:, :2])
    np.testing.assert_allclose(found.seed_means, table[:, 2])
    parts = [float(one) for one in (found.mean, found.from_seeds, found.from_documents, found.from_residual, found.variance)]
    assert parts == pytest.approx([-0.03, 0.0001 / 3, 0.0001, 0.0002 / 6, 0.0001])
    assert float(found.df) == pytest.approx(0.9)
    t = stats.t.isf(0.025, 0.9)
    assert [round(-0.03 + sign * t * 0.01, 2) for sign in (-1, 1)] == [-0.2, 0.14]
    here = found.estimate(0.95, on_this_set=True)
    assert [round(here.low, 3), round(here.high, 3)] == [-0.055, -0.005]


def test_the_page_is_short():
    assert len(PAGE.split()) <= 1500
