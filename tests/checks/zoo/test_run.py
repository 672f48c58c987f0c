"""The laws on tiny models of transformers: entries whatever happens, and models left as they were."""

from __future__ import annotations

import copy
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from torch import nn

pytest.importorskip("transformers")

from glassformer.checks.zoo import run
from glassformer.checks.zoo.run import examine, in_words, run_zoo, same_model

DOCS = Path(__file__).parents[3] / "docs"


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


def test_a_crash_is_an_entry_and_the_order_is_that_of_the_names(monkeypatch) -> None:
    """Two at a time; one process dies, the others answer. Forked children see what is patched here."""

    def stand_in(name: str) -> dict:
        if name == "Dies":
            os._exit(5)
        time.sleep(0.3 if name == "One" else 0.0)  # the first is done last
        return {"class": name, "built": False, "error": "E"}

    monkeypatch.setattr(run, "examine", stand_in)
    said: list[str] = []
    entries = run_zoo(["One", "Dies", "Two"], workers=2, say=said.append)
    assert [entry["class"] for entry in entries] == ["One", "Dies", "Two"]
    assert entries[1]["error"] == "the process ended with code 5"
    assert sorted(line.split()[1] for line in said) == ["Dies:", "One:", "Two:"]
    assert [line.split("/")[0] for line in said] == ["1", "2", "3"]


def test_the_limit_is_on_seconds_of_one_core(monkeypatch) -> None:
    """One computes without end, one waits longer than the limit and is done; what is known is not made again."""

    def stand_in(name: str) -> dict:
        while name == "Computes":
            pass
        time.sleep(1.5)
        return {"class": name, "built": False, "error": "E"}

    monkeypatch.setattr(run, "examine", stand_in)
    monkeypatch.setattr(run, "PATIENCE", 500.0)  # however busy this machine is
    known, made = {"Known": {"class": "Known", "built": False, "error": "K"}}, []
    entries = run_zoo(["Computes", "Known", "Waits"], workers=2, limit=1.0, known=known, keep=made.append)
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
def test_the_same_model_is_the_same_bit_by_bit(change, same: bool) -> None:
    model = Tiny()
    twin = copy.deepcopy(model)
    change(model)
    assert same_model(twin, model) is same


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
def test_the_verdict_in_words(entry: dict, words: str) -> None:
    assert in_words(entry) == words


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
