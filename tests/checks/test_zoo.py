"""Tiny models of transformers: built from their class, judged, unchanged; a table of entries; what was found stays shown."""

from __future__ import annotations

import json
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("transformers")

from glassformer.checks.zoo.build import causal_classes, tiny_model
from glassformer.checks.zoo.run import examine, in_words, run_zoo
from glassformer.checks.zoo.table import markdown, page, summary
from glassformer.foundation.errors import UnknownName

DOCS = Path(__file__).parents[2] / "docs"


def test_causal_classes_are_many_and_each_once() -> None:
    names = causal_classes()
    assert len(names) == len(set(names)) > 150
    with pytest.raises(UnknownName, match="Did you mean 'LlamaForCausalLM'"):
        tiny_model("LamaForCausalLM")


@pytest.mark.parametrize("name", ["LlamaForCausalLM", "MixtralForCausalLM"])
def test_an_honest_class_is_judged_by_every_law_and_left_as_it_was(name: str) -> None:
    entry = examine(name)
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
def test_what_was_found_is_found(name: str, law: str) -> None:
    assert examine(name)["judged"][law] == "broken"


def test_every_class_is_an_entry_whatever_happens() -> None:
    entries = run_zoo(["NoSuchForCausalLM", "GPT2LMHeadModel"], limit=0.0)
    assert [entry["class"] for entry in entries] == ["NoSuchForCausalLM", "GPT2LMHeadModel"]
    assert all("error" in entry for entry in entries)


def test_the_page_in_the_docs_is_the_table_of_its_measurements() -> None:
    found = json.loads((DOCS / "measurements" / "zoo.json").read_text())
    assert (DOCS / "zoo.md").read_text() == runpy.run_path(str(DOCS / "make_zoo.py"))["page"](found)
    assert found["summary"] == summary(found["classes"])
    assert found["summary"]["changed_by_the_check"] == []
    assert "<table>" in page(found)
    assert markdown(found).count("\n| ") >= len(found["classes"])
    assert {in_words(entry).split()[0] for entry in found["classes"]} <= {"passed", "breaks", "cannot", "not"}


@pytest.mark.slow
@pytest.mark.parametrize("script", ["prophetnet", "bamba", "mamba", "rwkv", "cpmant"])
def test_a_fault_is_shown_without_us(script: str) -> None:
    program = [sys.executable, "-W", "ignore", str(DOCS / "found" / f"{script}.py")]
    shown = subprocess.run(program, capture_output=True, text=True, check=True).stdout
    assert "change by" in shown
    assert "change by 0.0e+00" not in shown
