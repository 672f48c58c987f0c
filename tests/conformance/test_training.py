"""Every optimizer, schedule, average and hook after the step: a run resumes bit by bit, and its records are those of the
weights it saves. So do models with a window, a list and shared layers."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from glassformer.experiment import train
from glassformer.foundation.registry import Slot
from glassformer.runs.checkpoint import checkpoint_checksums, load_checkpoint
from glassformer.runs.directory import RunDirectory
from glassformer.training.slots import AFTER_STEPS, AVERAGES, OPTIMIZERS, SCHEDULES

pytestmark = pytest.mark.usefixtures("unchecked")
TRAINING = [(slot.path, name) for slot in (OPTIMIZERS, SCHEDULES, AFTER_STEPS, AVERAGES) for name in slot.names()]
WINDOWS = [{"kind": "dot", "window": 3}, "dot"]
MODELS: dict[str, dict[str, Any]] = {
    "window": {"mixer": {"kind": "dot", "window": 3}, "layers": 2},
    "list": {"mixer": WINDOWS, "positions": ["rotary", "none"], "feedforward": ["gelu", "experts"], "layers": 4},
    "shared": {"stack": {"kind": "shared", "blocks": 2}, "mixer": WINDOWS, "positions": "rotary", "layers": 4},
    "borrowed keys": {"mixer": ["dot", "borrowed"], "layers": 2},
    "value embeddings": {"mixer": [{"kind": "dot", "values": "embedding"}, "dot"], "layers": 2},
    "ahead": {"head": {"kind": "ahead", "tokens": 3}, "layers": 1},
}


def resumed(recipe: dict[str, Any], folder: Path) -> tuple[RunDirectory, RunDirectory]:
    """A run to its end, and one that lost its last checkpoint and went on; both with the same bits."""
    whole, broken = RunDirectory(folder / "whole"), RunDirectory(folder / "broken")
    train(recipe, out=whole.root)
    shutil.copytree(whole.root, broken.root)
    shutil.rmtree(broken.checkpoint(6))  # as if it had been killed after step 4
    train(recipe, out=broken.root, resume=True)
    assert checkpoint_checksums(whole, 6) == checkpoint_checksums(broken, 6)
    records = [[json.loads(line) for line in run.metrics_file.read_text().splitlines()] for run in (whole, broken)]
    timeless = [[{k: v for k, v in one.items() if "second" not in k} for one in rows] for rows in records]
    assert timeless[0] == timeless[1]
    return whole, broken


@pytest.mark.parametrize(("slot", "name"), TRAINING, ids=str)
def test_every_variant_of_training_resumes_bit_by_bit(slot: str, name: str, tiny: dict[str, Any], tmp_path: Path) -> None:
    tiny["training"] |= {slot.rpartition(".")[2]: name}
    whole, _ = resumed(tiny, tmp_path)
    saved = load_checkpoint(whole.checkpoint(6))
    averages = (slot == AVERAGES.path and name != "none") or name == "schedule_free"
    trained = {key.removesuffix("/trained"): one for key, one in saved.optimizer.items() if key.endswith("/trained")}
    assert bool(trained) is averages
    assert all(not trained[key].equal(saved.model[key]) for key in trained)
    recorded = [json.loads(line) for line in whole.metrics_file.read_text().splitlines()][-1]
    found = train(tiny, out=whole.root, resume=True).evaluate("validation")  # nothing is left to train
    assert found.metrics["loss"].value == pytest.approx(recorded["validation_loss"], rel=1e-6)


@pytest.mark.parametrize("name", MODELS)
def test_models_resume_bit_by_bit(name: str, tiny: dict[str, Any], tmp_path: Path) -> None:
    tiny["model"] |= MODELS[name]
    resumed(tiny, tmp_path)


def test_every_slot_is_in_a_suite() -> None:
    """What a plugin can register, a suite runs: parts of models, training, objectives and tokenizers."""
    from glassformer.checks.conformance import SLOTS

    elsewhere = {"objective", "tokenizer", "model", "data.set"} | {
        path for path in Slot.every if path.startswith(("model.tuning", "evaluation."))
    }
    assert set(Slot.every) == {*SLOTS, *elsewhere, *(path for path, _ in TRAINING)}
