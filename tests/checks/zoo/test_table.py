"""Entries -> table: counts by hand, a row for each class, cells that cannot break the table or the page."""

from __future__ import annotations

import json
import runpy
from pathlib import Path

import pytest

pytest.importorskip("transformers")

from glassformer.checks.zoo import table
from glassformer.checks.zoo.run import in_words
from glassformer.checks.zoo.table import LAWS, document, keep, kept, markdown, page, rows, sentence, summary, write

DOCS = Path(__file__).parents[3] / "docs"


def entry(name: str, seconds: float, findings=(), cannot_tell=None, unchanged: bool = True, **judged: str) -> dict:
    facts = {"findings": list(findings), "cannot_tell": cannot_tell or {}, "unchanged": unchanged}
    return {"class": name, "built": True, "judged": judged, "cpu_seconds": seconds, **facts}


LEAK = {"law": "cache", "where": "a|b", "size": 0.1234, "example": {"side": "left", "rows": 3, "found_by": "x"}}
ENTRIES = [
    entry("Good", 1.0, causality="passed", batch="passed"),
    entry("Leaky", 2.0, [LEAK], causality="passed", cache="broken", unchanged=False),
    entry("Odd", 6.0, (), {"batch": "<b>", "state": "<b>", "padding": "it presumes causality"}, causality="cannot tell"),
    {"class": "Absent", "built": False, "error": "ValueError: no"},
    {"class": "Slow", "built": True, "error": "not done within 5 s"},
]


def test_the_summary_by_hand() -> None:
    assert summary(ENTRIES) == {
        "classes": 5,
        "built": 4,
        "judged_for_causality": 2,
        "every_law_judged": 2,
        "with_a_broken_law": 1,
        "changed_by_the_check": ["Leaky"],
        "median_cpu_seconds": 2.0,
        "longest_cpu_seconds": 6.0,
    }
    assert summary([])["median_cpu_seconds"] is None


def test_a_row_for_each_class() -> None:
    found = rows(ENTRIES)
    assert [row[0] for row in found] == ["Good", "Leaky", "Odd", "Absent", "Slow"]
    assert {len(row) for row in found} == {len(LAWS) + 3}
    assert found[0][1:] == ("holds", "holds", "-", "-", "-", "1.0", "")
    assert found[1][1:] == ("holds", "-", "-", "-", "BROKEN", "2.0", "cache: 0.12 at a|b (side left, rows 3)")
    assert found[2][-1] == "batch, state: <b>"  # equal reasons once; what only follows from another law is left out
    assert found[3][-1] == "not built: ValueError: no"
    assert found[4][-1] == "cannot tell: not done within 5 s"


def test_no_cell_breaks_the_table_or_the_page() -> None:
    found = document(ENTRIES)
    lines = [line for line in markdown(found).splitlines() if line.startswith("|")]
    assert {line.replace("\\|", "").count("|") for line in lines} == {len(LAWS) + 4}
    html = page(found)
    assert "<b>" not in html
    assert html.count("<tr>") == 1 + len(ENTRIES)
    assert html.count("class='broken'") == 1
    assert "http" not in html
    assert "<script" not in html


def test_what_is_written_is_the_document(tmp_path) -> None:
    found = write(ENTRIES, tmp_path / "new" / "folder")
    assert json.loads((tmp_path / "new" / "folder" / "zoo.json").read_text()) == found
    assert (tmp_path / "new" / "folder" / "zoo.html").read_text() == page(found)
    assert f"of 5 causal classes (there are {found['mapped']}; {found['mapped'] - 5} were not tried) 4 could" in sentence(found)
    assert "of 5 causal classes 4 could be built small" in sentence({**found, "mapped": 5})
    assert sentence(found).endswith("same afterwards: Leaky.")


def test_what_was_found_before_a_stop_is_kept_for_the_same_code(tmp_path, monkeypatch) -> None:
    folder = tmp_path / "new"
    assert kept(folder) == {}
    for one in (*ENTRIES[:2], {"class": "Busy", "built": True, "error": "not done within 100 s on the wall"}):
        keep(one, folder)
    with (folder / "zoo.jsonl").open("a") as stream:
        stream.write('{"build": ["cut o')
    assert kept(folder) == {"Good": ENTRIES[0], "Leaky": ENTRIES[1]}
    monkeypatch.setattr(table, "code_sha256", lambda: "other code")
    assert kept(folder) == {}


def test_the_page_in_the_docs_is_the_table_of_its_measurements() -> None:
    found = json.loads((DOCS / "measurements" / "zoo.json").read_text())
    assert (DOCS / "zoo.md").read_text() == runpy.run_path(str(DOCS / "make_zoo.py"))["page"](found)
    assert found["summary"] == summary(found["classes"])
    assert found["summary"]["changed_by_the_check"] == []
    assert "<table>" in page(found)
    assert markdown(found).count("\n| ") >= len(found["classes"])
    assert {in_words(entry).split()[0] for entry in found["classes"]} <= {"passed", "breaks", "cannot", "not"}
