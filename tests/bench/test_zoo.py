"""bench/zoo.py: entries whatever happens, models left as they were, and a table that no cell breaks."""

from __future__ import annotations

import copy
import json
import os
import re
import runpy
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from torch import nn

pytest.importorskip("transformers")

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize("name", ["LlamaForCausalLM", "MixtralForCausalLM"])
def test_an_honest_class_is_judged_by_every_law_and_left_as_it_was(bench, name: str) -> None:
    entry = bench.examine(name)
    assert entry["passed"], entry
    assert entry["unchanged"]
    assert set(entry["judged"]) == {"causality", "batch", "state", "padding", "cache"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "law"),
    [
        ("ProphetNetForCausalLM", "causality"),
        ("BambaForCausalLM", "cache"),
        ("MambaForCausalLM", "cache"),
        ("RwkvForCausalLM", "padding"),
    ],
)
def test_what_was_found_is_found(bench, name: str, law: str) -> None:
    assert bench.examine(name)["judged"][law] == "broken"


def test_every_class_is_an_entry_whatever_happens(bench) -> None:
    entries = bench.run_zoo(["NoSuchForCausalLM", "GPT2LMHeadModel"], limit=0.0)
    assert [entry["class"] for entry in entries] == ["NoSuchForCausalLM", "GPT2LMHeadModel"]
    assert all("error" in entry for entry in entries)


def test_a_crash_is_an_entry_and_the_order_is_that_of_the_names(bench, monkeypatch) -> None:
    """Two at a time; one process dies, the others answer. Forked children see what is patched here."""

    def stand_in(name: str) -> dict:
        if name == "Dies":
            os._exit(5)
        time.sleep(0.3 if name == "One" else 0.0)  # the first is done last
        return {"class": name, "built": False, "error": "E"}

    monkeypatch.setattr(bench, "examine", stand_in)
    said: list[str] = []
    entries = bench.run_zoo(["One", "Dies", "Two"], workers=2, say=said.append)
    assert [entry["class"] for entry in entries] == ["One", "Dies", "Two"]
    assert entries[1]["error"] == "the process ended with code 5"
    assert sorted(line.split()[1] for line in said) == ["Dies:", "One:", "Two:"]
    assert [line.split("/")[0] for line in said] == ["1", "2", "3"]


def test_the_limit_is_on_seconds_of_one_core(bench, monkeypatch) -> None:
    """One computes without end, one waits longer than the limit and is done; what is known is not made again."""

    def stand_in(name: str) -> dict:
        while name == "Computes":
            pass
        time.sleep(1.5)
        return {"class": name, "built": False, "error": "E"}

    monkeypatch.setattr(bench, "examine", stand_in)
    monkeypatch.setattr(bench, "PATIENCE", 500.0)  # however busy this machine is
    known, made = {"Known": {"class": "Known", "built": False, "error": "K"}}, []
    entries = bench.run_zoo(["Computes", "Known", "Waits"], workers=2, limit=1.0, known=known, store=made.append)
    assert [entry["error"] for entry in entries] == ["not done within 1 s of one core", "K", "E"]
    assert {entry["class"] for entry in made} == {"Computes", "Waits"}


class Tiny(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table, self.drop = nn.Embedding(64, 3), nn.Dropout(0.5)
        self.register_buffer("kept", torch.tensor([float("nan"), 1.0]))
        self.loose = torch.zeros(5)
        self.times = 1.0

    def forward(self, input_ids: torch.Tensor) -> SimpleNamespace:
        return SimpleNamespace(logits=self.times * self.table(input_ids))


@pytest.mark.parametrize(
    ("change", "same"),
    [
        (lambda m: None, True),
        (lambda m: m.table.weight.data[3].add_(1e-6), False),
        (lambda m: m.kept.fill_(1.0), False),
        (lambda m: m.loose.add_(1), False),
        (lambda m: m.drop.train(False), False),
        (lambda m: m.double(), False),
        (lambda m: setattr(m, "times", 2.0), False),  # seen in the scores alone
        (lambda m: delattr(m, "loose"), False),
    ],
)
def test_the_same_model_is_the_same_bit_by_bit(bench, change, same: bool) -> None:
    model = Tiny()
    twin = copy.deepcopy(model)
    change(model)
    assert bench.same_model(twin, model) is same


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ({"built": False, "error": "E: x"}, "not built: E: x"),
        ({"built": True, "error": "E: x"}, "cannot tell: E: x"),
        ({"judged": {"batch": "passed", "cache": "broken", "state": "broken"}}, "breaks cache and state"),
        ({"judged": {"batch": "passed", "cache": "cannot tell"}}, "cannot tell cache"),
        ({"judged": {"batch": "passed"}}, "passed"),
    ],
)
def test_the_verdict_in_words(bench, entry: dict, words: str) -> None:
    assert bench.in_words(entry) == words


@pytest.mark.slow
@pytest.mark.parametrize(
    "script",
    ["prophetnet", "bamba", "blt", "mamba", "hybrids", "nemotron_h", "moshi", "left_padding", "deepseek_v4", "rwkv", "cpmant"],
)
def test_a_fault_is_shown_without_us(script: str) -> None:
    program = [sys.executable, "-W", "ignore", str(DOCS / "found" / f"{script}.py")]
    shown = subprocess.run(program, capture_output=True, text=True, check=True).stdout
    released = [line for line in shown.splitlines() if re.search(r"chang.* by \d", line) and not line.startswith("mended")]
    assert released
    assert not any("change by 0.0e+00" in line for line in released)


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


def test_the_summary_by_hand(bench) -> None:
    assert bench.summary(ENTRIES) == {
        "classes": 5,
        "built": 4,
        "judged_for_causality": 2,
        "every_law_judged": 2,
        "with_a_broken_law": 1,
        "changed_by_the_check": ["Leaky"],
        "median_cpu_seconds": 2.0,
        "longest_cpu_seconds": 6.0,
    }
    assert bench.summary([])["median_cpu_seconds"] is None


def test_a_row_for_each_class(bench) -> None:
    found = bench.rows(ENTRIES)
    assert [row[0] for row in found] == ["Good", "Leaky", "Odd", "Absent", "Slow"]
    assert {len(row) for row in found} == {len(bench.LAWS) + 3}
    assert found[0][1:] == ("holds", "holds", "-", "-", "-", "1.0", "")
    assert found[1][1:] == ("holds", "-", "-", "-", "BROKEN", "2.0", "cache: 0.12 at a|b (side left, rows 3)")
    assert found[2][-1] == "batch, state: <b>"  # equal reasons once; what only follows from another law is left out
    assert found[3][-1] == "not built: ValueError: no"
    assert found[4][-1] == "cannot tell: not done within 5 s"


def test_no_cell_breaks_the_table_or_the_page(bench) -> None:
    found = bench.document(ENTRIES)
    lines = [line for line in bench.markdown(found).splitlines() if line.startswith("|")]
    assert {line.replace("\\|", "").count("|") for line in lines} == {len(bench.LAWS) + 4}
    html = bench.page(found)
    assert "<b>" not in html
    assert html.count("<tr>") == 1 + len(ENTRIES)
    assert html.count("class='broken'") == 1
    assert "http" not in html
    assert "<script" not in html


def test_what_is_written_is_the_document(bench, tmp_path) -> None:
    found = bench.write(ENTRIES, tmp_path / "new" / "folder")
    assert json.loads((tmp_path / "new" / "folder" / "zoo.json").read_text()) == found
    assert (tmp_path / "new" / "folder" / "zoo.html").read_text() == bench.page(found)
    assert f"of 5 causal classes (there are {found['mapped']}; {found['mapped'] - 5} were not tried) 4 could" in bench.sentence(
        found
    )
    assert "of 5 causal classes 4 could be built small" in bench.sentence({**found, "mapped": 5})
    assert bench.sentence(found).endswith("same afterwards: Leaky.")


def test_what_was_found_before_a_stop_is_kept_for_the_same_code(bench, tmp_path, monkeypatch) -> None:
    folder = tmp_path / "new"
    assert bench.stored_entries(folder) == {}
    for one in (*ENTRIES[:2], {"class": "Busy", "built": True, "error": "not done within 100 s on the wall"}):
        bench.store_entry(one, folder)
    with (folder / "zoo.jsonl").open("a") as stream:
        stream.write('{"build": ["cut o')
    assert bench.stored_entries(folder) == {"Good": ENTRIES[0], "Leaky": ENTRIES[1]}
    monkeypatch.setattr(bench, "code_sha256", lambda: "other code")
    assert bench.stored_entries(folder) == {}


def test_the_page_in_the_docs_is_the_table_of_its_measurements(bench) -> None:
    found = json.loads((DOCS / "measurements" / "zoo.json").read_text())
    assert (DOCS / "zoo.md").read_text() == runpy.run_path(str(DOCS / "make_zoo.py"))["page"](found)
    assert found["summary"] == bench.summary(found["classes"])
    assert found["summary"]["changed_by_the_check"] == []
    assert "<table>" in bench.page(found)
    assert bench.markdown(found).count("\n| ") >= len(found["classes"])
    assert {bench.in_words(entry).split()[0] for entry in found["classes"]} <= {"passed", "breaks", "cannot", "not"}
