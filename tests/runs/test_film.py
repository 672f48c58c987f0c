"""The film: which steps, what is kept, and what a damaged snapshot says."""

from __future__ import annotations

import pytest
import torch
from tests.refusals import refused

from glassformer.foundation.errors import DamagedCheckpoint, RunError
from glassformer.runs.checkpoint import film_steps, read_snapshot, save_snapshot
from glassformer.runs.directory import RunDirectory


@pytest.mark.parametrize(
    ("count", "steps", "wanted"),
    [
        (2, 100, [0, 100]),
        (4, 100, [0, 1, 10, 100]),
        (5, 1000, [0, 1, 10, 100, 1000]),
        (8, 5, [0, 1, 2, 3, 4, 5]),
        (6, 6, [0, 1, 2, 3, 4, 6]),
        (9, 0, [0]),
    ],
)
def test_steps(count: int, steps: int, wanted: list[int]) -> None:
    assert film_steps(count, steps) == wanted


@pytest.mark.parametrize("steps", [1, 7, 60, 999, 20_000])
@pytest.mark.parametrize("count", [2, 3, 12, 50])
def test_always_ascending_and_as_many_as_asked_for(count: int, steps: int) -> None:
    found = film_steps(count, steps)
    assert found == sorted(set(found))
    assert len(found) == min(count, steps + 1)
    assert (found[0], found[-1]) == (0, steps)


def test_there_and_back(tmp_path) -> None:
    run = RunDirectory(tmp_path)
    for step in (7, 0):
        save_snapshot(run, step, {"a": torch.full((2, 3), float(step))})
    assert run.film() == [0, 7]
    assert torch.equal(read_snapshot(run, 7)["a"], torch.full((2, 3), 7.0))
    with refused(RunError, "no-such-snapshot", "step 3", "0, 7"):
        read_snapshot(run, 3)


def test_a_changed_byte_is_found(tmp_path) -> None:
    run = RunDirectory(tmp_path)
    save_snapshot(run, 7, {"a": torch.full((2, 3), 7.0)})
    whole = run.snapshot(7).read_bytes()
    run.snapshot(7).write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))  # safetensors alone would read it
    with refused(DamagedCheckpoint, "damaged-snapshot", "step-7.safetensors"):
        read_snapshot(run, 7)
    run.snapshot(7).write_bytes(whole)
    run.snapshot_manifest(7).write_text("[]")
    with refused(DamagedCheckpoint, "damaged-manifest", "step-7.json"):
        read_snapshot(run, 7)


def test_a_snapshot_without_its_checksum_is_damaged(tmp_path) -> None:
    run = RunDirectory(tmp_path)
    save_snapshot(run, 7, {"a": torch.zeros(2)})
    run.snapshot_manifest(7).unlink()
    with refused(DamagedCheckpoint, "damaged-manifest", "step-7.json"):
        read_snapshot(run, 7)
