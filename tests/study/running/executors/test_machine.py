"""What runs side by side: cores that may be used, and shares of a GPU."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from glassformer.study.running.executors.machine import PER_GPU, PROCESS_BYTES, cores, per_gpu


def test_no_more_cores_than_the_machine_has(tmp_path: Path) -> None:
    assert 1 <= cores(tmp_path / "nothing") <= (os.cpu_count() or 1)


@pytest.mark.parametrize("content", ["max 100000\n", "nonsense", ""])
def test_without_a_limit_all_are_used(tmp_path: Path, content: str) -> None:
    (tmp_path / "cpu.max").write_text(content)
    assert cores(tmp_path / "cpu.max") == cores(tmp_path / "nothing")


def test_a_container_gets_what_it_was_given(tmp_path: Path) -> None:
    (tmp_path / "cpu.max").write_text("100000 100000\n")
    assert cores(tmp_path / "cpu.max") == 1
    (tmp_path / "cpu.max").write_text("20000 100000\n")  # a fifth of a core is still one process
    assert cores(tmp_path / "cpu.max") == 1


def test_shares_of_a_gpu_follow_its_memory() -> None:
    one = 1_000_000_000
    per_trial = int(1.5 * one) + PROCESS_BYTES
    assert per_gpu(one, 2 * per_trial) == 2
    assert per_gpu(one, 2 * per_trial - 1) == 1
    assert per_gpu(one, 0) == 1  # it may still fit; the run says so when it does not
    assert per_gpu(one, 100 * per_trial) == PER_GPU
    assert per_gpu(one, 100 * per_trial, 14) == 14  # more than usual, because it was asked for
    assert per_gpu(one, 3 * per_trial, 14) == 3
