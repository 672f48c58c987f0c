"""Damaged checkpoints, numbers that are none, full disks: found, named, survived."""

from __future__ import annotations

import math
import shutil

import pytest
import torch

from glassformer.runs.checkpoint import load_checkpoint
from glassformer.runs.directory import RunDirectory
from glassformer.runs.records import MetricsLog


def killed_at(fault, step: int) -> None:
    child = fault.start(["slow_step", step, str(fault.root / "there")])
    fault.until((fault.root / "there").exists)
    child.kill()
    child.wait()


@pytest.mark.parametrize("name", ["model.safetensors", "optimizer.safetensors", "state.json", "manifest.json"])
@pytest.mark.parametrize("damage", ["flipped", "truncated", "missing"])
def test_a_damaged_checkpoint_is_named_and_the_one_before_it_used(fault, whole, name: str, damage: str) -> None:
    killed_at(fault, 13)
    assert fault.run.steps() == [9, 12]
    file = fault.run.checkpoint(12) / name
    content = file.read_bytes()
    if damage == "missing":
        file.unlink()
    else:
        file.write_bytes(
            content[: len(content) // 2] + (b"" if damage == "truncated" else b"\0" + content[len(content) // 2 + 1 :])
        )
    said = fault.finish()
    assert f"step-12/{name}" in said or f"step-12 has no {name}" in said
    assert "Using the checkpoint before it." in said
    assert "Resuming from step 9." in said
    assert fault.sums() == whole["sums"]


def test_all_damaged_is_refused_and_begins_again_when_asked_to(fault, whole) -> None:
    killed_at(fault, 13)
    for step in fault.run.steps():
        (fault.run.checkpoint(step) / "model.safetensors").write_bytes(b"")
    child = fault.start(words=("--resume",))
    assert child.wait() == 1
    assert child.said.count("Using the checkpoint before it.") == 1  # not of the first, before which there is none
    assert f"remove {fault.run.checkpoints} and give --resume again" in child.said
    assert fault.run.steps() == [9, 12]
    shutil.rmtree(fault.run.checkpoints)
    assert "has no complete checkpoint: starting from the first step" in fault.finish()
    assert fault.sums() == whole["sums"]


def test_a_number_that_is_none_is_recorded_and_the_last_good_checkpoint_kept(fault) -> None:
    child = fault.start(["not_a_number", 13])
    assert child.wait() == 4
    assert "Diverged at step 14: the loss is nan. The last good checkpoint stays" in child.said
    assert fault.run.read_state()["status"] == "diverged"
    last = MetricsLog(fault.run.metrics_file).read()[-1]
    assert last["step"] == 14
    assert math.isnan(last["loss"])
    assert '"loss": "nan"' in fault.run.metrics_file.read_text().splitlines()[-1]
    assert fault.run.steps() == [9, 12]
    weights = load_checkpoint(fault.run.checkpoint(12)).model
    assert all(torch.isfinite(tensor).all() for tensor in weights.values())


def test_a_full_disk(fault_recipe, new_fault, tiny_disk, whole) -> None:
    """A real one: the run says so and ends with 1, what was saved stays, and with room it goes on to the same bits."""
    fault_recipe["checkpoint"] = {"every": 1, "keep": 1000}
    fault = new_fault("disk", fault_recipe)
    fault.run = RunDirectory(tiny_disk / "run")
    ballast = tiny_disk / "ballast"
    ballast.write_bytes(b"x" * 700_000)
    child = fault.start()
    assert child.wait() == 1
    assert child.said.splitlines()[-1].startswith("Error: No room to write ")
    saved = fault.run.steps()
    assert 0 < len(saved) < 30
    fault.check_every_listed_checkpoint()
    ballast.unlink()
    assert f"Resuming from step {saved[-1]}." in fault.finish()
    assert fault.sums() == whole["sums"]


def test_no_room_by_a_limit_on_files(fault, whole) -> None:
    """The same where a disk cannot be mounted: files may not grow beyond a size that the next checkpoint needs."""
    killed_at(fault, 13)
    size = (fault.run.checkpoint(12) / "model.safetensors").stat().st_size
    child = fault.start(["small_files", size - 1])
    assert child.wait() == 1
    assert child.said.splitlines()[-1].startswith("Error: No room to write ")
    assert fault.run.steps() == [9, 12]
    fault.check_every_listed_checkpoint()
    assert not list(fault.run.checkpoints.glob(".*"))
    fault.finish()
    assert fault.sums() == whole["sums"]
