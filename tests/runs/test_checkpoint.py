"""Checkpoints: whole or absent; damage is found, named and passed over; room that is missing harms nothing."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import torch
from tests.refusals import refused

from glassformer.foundation.errors import DamagedCheckpoint, DiskFull, OptimizerDamaged, RunError
from glassformer.runs import checkpoint as module
from glassformer.runs.checkpoint import (
    Checkpoint,
    CheckpointWriter,
    checkpoint_checksums,
    discard_after,
    last_checkpoint,
    load_checkpoint,
    load_for_inference,
    newest_good,
    prune,
    save_checkpoint,
    verify_checkpoint,
)
from glassformer.runs.directory import RunDirectory

FILES = ("model.safetensors", "optimizer.safetensors", "state.json", "manifest.json")


@pytest.fixture
def run(tmp_path) -> RunDirectory:
    return RunDirectory(tmp_path)


def made(step: int, size: int = 5) -> Checkpoint:
    weights = {"a": torch.arange(size) / 3, "b": torch.full((2, 3), float(step)).T}  # b is not contiguous
    return Checkpoint(step, weights, {"a/step": torch.tensor(float(step))}, {"best_step": None, "stale": 2})


def test_there_and_back(run) -> None:
    folder = save_checkpoint(run, made(7))
    loaded = load_checkpoint(folder)
    assert loaded.step == 7
    assert all(torch.equal(loaded.model[name], made(7).model[name]) for name in ("a", "b"))
    assert loaded.optimizer["a/step"].item() == 7
    assert loaded.state["stale"] == 2
    assert sorted(path.name for path in folder.iterdir()) == sorted(FILES)
    assert [path.name for path in run.checkpoints.iterdir()] == ["step-7"]


def test_equal_tensors_give_equal_sums(run, tmp_path) -> None:
    other = RunDirectory(tmp_path / "other")
    save_checkpoint(run, made(7))
    save_checkpoint(other, made(7))
    save_checkpoint(other, made(8))
    assert checkpoint_checksums(run, 7) == checkpoint_checksums(other, 7)
    assert set(checkpoint_checksums(run, 7)) == {"model.safetensors", "optimizer.safetensors"}
    assert checkpoint_checksums(other, 7) != checkpoint_checksums(other, 8)


def flip(file: Path, place: int) -> None:
    content = bytearray(file.read_bytes())
    content[place] ^= 1
    file.write_bytes(content)


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("damage", ["first byte", "last byte", "truncated", "longer", "empty", "missing"])
def test_damage_is_found_and_named(run, name: str, damage: str) -> None:
    file = save_checkpoint(run, made(7)) / name
    content = file.read_bytes()
    if damage.endswith("byte"):
        flip(file, 0 if damage.startswith("first") else -3)
    elif damage == "missing":
        file.unlink()
    else:
        file.write_bytes({"truncated": content[:-1], "longer": content + b"x", "empty": b""}[damage])
    if name == "manifest.json" and damage == "truncated":
        assert content.endswith(b"}\n")  # only the newline is gone: nothing that is checked
        return
    with pytest.raises(DamagedCheckpoint) as caught:
        load_checkpoint(run.checkpoint(7))
    assert name in str(caught.value)


def test_every_single_byte_counts(run) -> None:
    folder = save_checkpoint(run, made(7))
    for name in FILES[:3]:
        for place in range(0, (folder / name).stat().st_size, 7):
            flip(folder / name, place)
            with refused(DamagedCheckpoint, "wrong-checksum", name):
                verify_checkpoint(folder)
            flip(folder / name, place)
    verify_checkpoint(folder)


def test_the_one_before_a_damaged_one_is_used(run) -> None:
    for step in (3, 5, 9):
        save_checkpoint(run, made(step))
    flip(run.checkpoint(9) / "model.safetensors", -1)
    (run.checkpoint(5) / "state.json").unlink()
    said: list[str] = []
    found = newest_good(run, said.append)
    assert found.step == 3
    assert len(said) == 2
    assert "step-9/model.safetensors is damaged" in said[0]
    assert said[0].endswith("Using the checkpoint before it.")
    assert "step-5/state.json is missing" in said[1]
    shutil.rmtree(run.checkpoint(3))
    assert newest_good(run, said.append) is None


def without_optimizer(run: RunDirectory, *steps: int) -> None:
    for step in steps:
        (run.checkpoint(step) / "optimizer.safetensors").unlink()


def test_without_any_optimizer_file_the_newest_weights_are_read_and_that_is_said_once(run) -> None:
    for step in (3, 5, 9):
        save_checkpoint(run, made(step))
    without_optimizer(run, 3, 5, 9)
    said: list[str] = []
    found = last_checkpoint(run, said.append)
    assert (found.step, dict(found.optimizer), found.state["stale"]) == (9, {}, 2)
    assert torch.equal(found.model["b"], made(9).model["b"])
    missing = run.checkpoint(9) / "optimizer.safetensors"
    assert said == [f"{missing} is missing. The weights are intact and are loaded, but training cannot resume from them."]
    assert load_for_inference(run.checkpoint(5), said.append).step == 5
    assert str(run.checkpoint(5)) in said[1]


def test_without_any_optimizer_file_training_on_is_refused_with_the_remedy(run) -> None:
    for step in (3, 5):
        save_checkpoint(run, made(step))
    without_optimizer(run, 3, 5)
    said: list[str] = []
    with pytest.raises(OptimizerDamaged) as caught:
        newest_good(run, said.append)
    assert said == []  # nothing about a checkpoint that is not used
    assert str(caught.value).startswith(f"{run.checkpoint(5)}/optimizer.safetensors is missing. {run.root} cannot be resumed")
    assert f"--set init_from={run.root} --out NEW" in str(caught.value)
    with pytest.raises(OptimizerDamaged):
        load_checkpoint(run.checkpoint(5))


def test_to_train_on_a_whole_one_goes_before_newer_ones_without_optimizer_to_read_it_does_not(run) -> None:
    for step in (3, 5, 9):
        save_checkpoint(run, made(step))
    without_optimizer(run, 5, 9)
    said: list[str] = []
    assert last_checkpoint(run, said.append).step == 9
    assert len(said) == 1
    assert "training cannot resume from them" in said.pop()
    found = newest_good(run, said.append)
    assert (found.step, found.optimizer["a/step"].item()) == (3, 3)
    files = [run.checkpoint(step) / "optimizer.safetensors" for step in (9, 5)]
    assert said == [f"{file} is missing. Using the checkpoint before it." for file in files]


@pytest.mark.parametrize("harm", ["model.safetensors", "state.json", "manifest.json"])
def test_only_the_optimizer_is_forgiven(run, harm: str) -> None:
    """Not weights that are damaged besides."""
    folder = save_checkpoint(run, made(7))
    without_optimizer(run, 7)
    flip(folder / harm, 0)
    with pytest.raises(DamagedCheckpoint) as caught:
        load_for_inference(folder, pytest.fail)
    assert not isinstance(caught.value, OptimizerDamaged)
    assert newest_good(run, lambda sentence: None) is None
    with refused(RunError, "no-checkpoint"):
        last_checkpoint(run, lambda sentence: None)


@pytest.mark.parametrize("harm", ["flipped", "empty", "a link that leads nowhere", "a folder"])
def test_whole_weights_beside_a_damaged_optimizer_are_read_and_never_trained_away(run, harm: str) -> None:
    file = save_checkpoint(run, made(7)) / "optimizer.safetensors"
    if harm == "flipped":
        flip(file, -3)
    elif harm == "empty":
        file.write_bytes(b"")
    else:
        file.unlink()
        file.symlink_to(run.root / "nowhere") if harm == "a link that leads nowhere" else file.mkdir()
    said: list[str] = []
    found = last_checkpoint(run, said.append)
    assert torch.equal(found.model["b"], made(7).model["b"])
    word = "damaged" if harm in ("flipped", "empty") else "missing"
    assert [sentence.startswith(f"{file} is {word}") for sentence in said] == [True]
    with refused(OptimizerDamaged, "no-optimizer-state"):
        newest_good(run, pytest.fail)


def test_what_is_wrong_with_newer_ones_is_said_before_weights_alone_are_read(run) -> None:
    for step in (3, 5, 9):
        save_checkpoint(run, made(step))
    without_optimizer(run, 5)
    flip(run.checkpoint(9) / "model.safetensors", -1)
    flip(run.checkpoint(3) / "model.safetensors", -1)
    said: list[str] = []
    found = last_checkpoint(run, said.append)
    assert found.step == 5
    assert len(said) == 2
    assert "step-9/model.safetensors is damaged" in said[0]
    assert "step-5/optimizer.safetensors is missing. The weights" in said[1]


def test_manifests_that_say_nonsense(run) -> None:
    manifest = save_checkpoint(run, made(7)) / "manifest.json"
    flipped = manifest.read_text().replace("schema", "scheme"), manifest.read_text().replace(": 1,", ": 3,")
    for content in ("[]", "{}", '{"sha256": 3}', '{"sha256": null}', '"x"', *flipped):
        manifest.write_text(content)
        with pytest.raises(DamagedCheckpoint, match="manifest"):
            verify_checkpoint(run.checkpoint(7))


def test_two_at_least_are_kept_and_the_best(run) -> None:
    for step in range(1, 7):
        save_checkpoint(run, made(step))
    (run.checkpoints / ".step-9.draft-1").mkdir()
    prune(run, keep=3, also={2})
    assert run.steps() == [2, 4, 5, 6]
    prune(run, keep=0, also=set())
    assert run.steps() == [5, 6]
    assert sorted(path.name for path in run.checkpoints.iterdir()) == ["step-5", "step-6"]


def test_later_ones_are_discarded(run) -> None:
    for step in (3, 5, 9):
        save_checkpoint(run, made(step))
    discard_after(run, 4)
    assert run.steps() == [3]
    discard_after(run, 0)
    assert run.steps() == []


@pytest.mark.parametrize("remove", [lambda run: prune(run, keep=2, also=set()), lambda run: discard_after(run, 2)])
def test_a_kill_while_removing_leaves_no_half_listed(run, monkeypatch, remove) -> None:
    for step in range(1, 6):
        save_checkpoint(run, made(step))

    def killed(folder: Path, **options: object) -> None:
        if folder.exists():
            (folder / "model.safetensors").unlink()
            raise KeyboardInterrupt

    monkeypatch.setattr(module.shutil, "rmtree", killed)
    with pytest.raises(KeyboardInterrupt):
        remove(run)
    assert len(run.steps()) == 4
    for step in run.steps():
        verify_checkpoint(run.checkpoint(step))


@pytest.mark.parametrize("moment", ["save_file", "write_json", "sha256_of_file"])
def test_a_failure_while_writing_leaves_nothing(run, monkeypatch, moment: str) -> None:
    save_checkpoint(run, made(3))

    def fail(*arguments: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(module, moment, fail)
    with pytest.raises(KeyboardInterrupt):
        save_checkpoint(run, made(5))
    assert [path.name for path in run.checkpoints.iterdir()] == ["step-3"]


def test_no_room_on_a_real_disk(tiny_disk: Path) -> None:
    run = RunDirectory(tiny_disk)
    save_checkpoint(run, made(3))
    with refused(DiskFull, "disk-full", "step-5"):
        save_checkpoint(run, made(5, size=1_000_000))
    assert [path.name for path in run.checkpoints.iterdir()] == ["step-3"]
    verify_checkpoint(run.checkpoint(3))


def test_no_room_by_a_file_size_limit(run) -> None:
    save_checkpoint(run, made(3))
    program = (
        "import resource, sys, torch\n"
        "from pathlib import Path\n"
        "from glassformer.foundation.errors import DiskFull\n"
        "from glassformer.runs.checkpoint import Checkpoint, save_checkpoint\n"
        "from glassformer.runs.directory import RunDirectory\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))\n"
        "try:\n"
        "    save_checkpoint(RunDirectory(Path(sys.argv[1])), Checkpoint(5, {'a': torch.zeros(100_000)}))\n"
        "except DiskFull as error:\n"
        "    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", program, str(run.root)], capture_output=True, text=True, check=True)
    assert done.stdout.startswith(f"No room to write {run.checkpoint(5)}")
    assert [path.name for path in run.checkpoints.iterdir()] == ["step-3"]


def test_a_header_that_lies_is_damage_not_a_crash(run) -> None:
    """Even with a manifest made to fit: huge or broken safetensors headers are refused by their reader."""
    folder = save_checkpoint(run, made(7))
    for content in (b"\xff" * 8, (1 << 40).to_bytes(8, "little") + b"{}", b"\x02" + b"\0" * 7 + b"{]"):
        (folder / "model.safetensors").write_bytes(content)
        manifest = json.loads((folder / "manifest.json").read_text())
        manifest["sha256"]["model.safetensors"] = module.sha256_of_file(folder / "model.safetensors")
        (folder / "manifest.json").write_text(json.dumps(manifest))
        with refused(DamagedCheckpoint, "unreadable-checkpoint"):
            load_checkpoint(folder)


def test_the_same_step_again_is_not_written_again(run) -> None:
    folder = save_checkpoint(run, made(7))
    before = os.stat(folder / "model.safetensors").st_ino
    save_checkpoint(run, made(7))
    assert os.stat(folder / "model.safetensors").st_ino == before


class TestWriter:
    """Large checkpoints are written while training goes on."""

    def test_small_ones_at_once(self, run) -> None:
        seen: list[Path] = []
        with CheckpointWriter(run, keep=1, written=seen.append) as writer:
            writer.write(made(1), best=None)
            assert seen == [run.checkpoint(1)]

    def test_large_ones_hold_what_they_were_given(self, run, monkeypatch) -> None:
        """Training changes the weights before the file is begun; what hears of the file hears of it in the caller's thread."""
        monkeypatch.setattr(module, "IN_BACKGROUND", 0)
        begin, heard = threading.Event(), list[tuple[Path, threading.Thread]]()
        saving = module.save_checkpoint
        monkeypatch.setattr(module, "save_checkpoint", lambda *a: begin.wait(30) and saving(*a))
        weights = made(1)
        with CheckpointWriter(run, keep=2, written=lambda file: heard.append((file, threading.current_thread()))) as writer:
            writer.write(weights, best=None)
            weights.model["a"].zero_()
            assert (run.steps(), heard) == ([], [])
            begin.set()
            writer.write(made(2), best=None)
            assert run.steps()[0] == 1
        assert torch.equal(load_checkpoint(run.checkpoint(1)).model["a"], made(1).model["a"])
        assert heard == [(run.checkpoint(step), threading.main_thread()) for step in (1, 2)]

    def test_the_best_is_not_pruned(self, run, monkeypatch) -> None:
        monkeypatch.setattr(module, "IN_BACKGROUND", 0)
        with CheckpointWriter(run, keep=1, written=lambda _: None) as writer:
            for step in (1, 2, 3, 4, 5):
                writer.write(made(step), best=2)
        assert run.steps() == [2, 4, 5]

    def test_an_error_is_raised_by_the_next_call(self, run, monkeypatch) -> None:
        monkeypatch.setattr(module, "IN_BACKGROUND", 0)

        def full(*_: object) -> Path:
            raise DiskFull("No room.", reason="disk-full")

        monkeypatch.setattr(module, "save_checkpoint", full)
        writer = CheckpointWriter(run, keep=1, written=lambda _: None)
        writer.write(made(1), best=None)
        with refused(DiskFull, "disk-full"):
            writer.write(made(2), best=None)
        with refused(DiskFull, "disk-full"), writer:
            writer.write(made(3), best=None)
