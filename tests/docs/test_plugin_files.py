"""The worked plugin files of docs/plugins.md: each conforms, trains and extends no final class; names have no effect."""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

import glassformer as gf
from glassformer.checks.conformance import SLOTS, conform
from glassformer.foundation.plugins import load_plugins, module_of
from glassformer.foundation.registry import Slot, variants_of

SNIPPETS = Path(__file__).parents[2] / "docs" / "snippets"
FILES = sorted(file.name for file in SNIPPETS.glob("*.py") if re.search(r"^@\w+\.variant\(", file.read_text(), re.MULTILINE))
SMALL = {"width": 12, "heads": 3, "layers": 2, "context": 11}


@pytest.fixture
def variants(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The variants of a file, which are gone after the test."""
    for slot in list(Slot.every.values()):
        slot.names()
        monkeypatch.setattr(slot, "_variants", dict(slot._variants))
    monkeypatch.setattr("glassformer.foundation.plugins._loaded", {})

    def found(name: str) -> list[tuple[str, str]]:
        load_plugins([SNIPPETS / name])
        return [(slot, kind) for slot, _, kind in (one.partition("=") for one in variants_of(module_of(SNIPPETS / name)))]

    return found


def test_every_slot_has_a_worked_file(variants: Any) -> None:
    worked = {slot for name in FILES for slot, _ in variants(name)}
    wanted = {
        *SLOTS,
        "model",
        "objective",
        "training.optimizer",
        "training.schedule",
        "training.after_step",
        "training.average",
    }
    assert worked == wanted


@pytest.mark.parametrize("name", FILES)
def test_no_file_extends_a_final_class(name: str, variants: Any) -> None:
    variants(name)
    module = sys.modules[module_of(SNIPPETS / name)]
    own = [value for value in vars(module).values() if isinstance(value, type) and value.__module__ == module.__name__]
    assert own
    assert [base for one in own for base in one.__mro__[1:] if getattr(base, "__final__", False)] == []


@pytest.mark.parametrize("name", FILES)
def test_every_part_conforms(name: str, variants: Any) -> None:
    for slot, kind in variants(name):
        if slot in SLOTS:
            assert conform(slot, kind) == {}


@pytest.mark.parametrize("name", ["my_training.py", "my_block.py"])
def test_it_trains_and_ends_in_the_same_weights_when_resumed(name: str, variants: Any, tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text("".join(f"the {'cat' if n % 3 else 'dog'} saw {n}\n" for n in range(60)))
    changes = {slot: kind for slot, kind in variants(name) if slot != "training.schedule"}
    values: dict[str, Any] = {
        "data": {"path": str(tmp_path / "text.txt"), "document": "line"},
        "model": SMALL,
        "training": {"steps": 4, "batch_size": 4, "device": "cpu", "schedule": "constant"},
        "checkpoint": {"every": 2},
    }
    whole = gf.train(values, set=changes, out=tmp_path / "whole", recheck=False)
    gf.train(values, set={**changes, "training.steps": 2}, out=tmp_path / "half", recheck=False)
    resumed = gf.train(values, set=changes, out=tmp_path / "half", resume=True, recheck=False)
    assert all(torch.equal(one, resumed.model.state_dict()[key]) for key, one in whole.model.state_dict().items())
    if name == "my_training.py":
        gf.train(values, set={**changes, "training.schedule": "my-triangle"}, out=tmp_path / "triangle", recheck=False)


RENAMED = {
    "my_attention.py": {"self.qkv": "self.a_b_c", "self.heads": "self.count"},
    "my_block.py": {
        "self.ln_1": "self.q",
        "self.attn": "self.r",
        "self.ln_2": "self.s",
        "self.mlp": "self.t",
        "self.a": "self.u",
    },
    "my_feedforward.py": {"self.first": "self.up", "self.second": "self.anything"},
    "my_attention_parts.py": {"self.factor": "self.x", "self.sizes": "self.y"},
}


@pytest.mark.slow
@pytest.mark.parametrize("name", RENAMED)
def test_other_names_of_attributes_give_the_same_bits(name: str, variants: Any, tmp_path: Path) -> None:
    """Every start, and every loss of a run with weight decay."""
    text = "".join(f"the {'cat' if n % 3 else 'dog'} saw {n}\n" for n in range(60))
    (tmp_path / "text.txt").write_text(text, encoding="utf-8")
    training = {"steps": 3, "batch_size": 4, "device": "cpu", "log_every": 1, "optimizer": "muon"}
    runs = []
    for number, renames in enumerate(({}, RENAMED[name])):
        code = (SNIPPETS / name).read_text(encoding="utf-8")
        for before, after in renames.items():
            assert before in code
            code = re.sub(rf"{re.escape(before)}\b", after, code)
        code = re.sub(r'variant\("', f'variant("{"renamed-" * number}', code)
        file = tmp_path / f"{number}_{name}"
        file.write_text(code, encoding="utf-8")
        load_plugins([file])
        settings = {slot: kind for slot, _, kind in (one.partition("=") for one in variants_of(module_of(file)))}
        model = dict(SMALL)
        values = {"data": {"path": str(tmp_path / "text.txt"), "document": "line"}, "model": model, "training": training}
        runs.append(gf.train(values, set=settings, out=tmp_path / f"run-{number}", recheck=False))
    starts = [list(run.untrained().parameters()) for run in runs]
    assert all(torch.equal(*pair) for pair in zip(*starts, strict=True))
    losses = [[record["loss"] for record in run.records() if "loss" in record] for run in runs]
    assert losses[0] == losses[1]
    shutil.rmtree(tmp_path)
