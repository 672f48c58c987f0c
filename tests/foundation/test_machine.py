"""What this machine has for a process: cores, memory, GPUs."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

from glassformer.foundation.machine import cores, give_large_blocks_back, gpus, memory_bytes


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


def test_memory_is_that_of_the_machine() -> None:
    assert 1 << 28 < memory_bytes() <= 1 << 62


def test_gpus_by_their_devices_unless_the_environment_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    for name in ("nvidia0", "nvidia1", "nvidiactl", "nvidia-uvm"):
        (tmp_path / name).touch()
    assert gpus(tmp_path) == ["0", "1"]
    for visible, expected in {"": [], "-1": [], "3": ["3"], "0,2": ["0", "2"]}.items():
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
        assert gpus(tmp_path) == expected


KEPT = """
import random, sys
import numpy as np
from glassformer.foundation.machine import give_large_blocks_back
if sys.argv[1] == "given back":
    assert give_large_blocks_back()
def resident():
    return int(next(line for line in open("/proc/self/status") if line.startswith("VmRSS")).split()[1]) / 1024
rng, kept, before = random.Random(0), [], resident()
for _ in range(60):  # tensors of many sizes, and a little that lives longer between them
    large = [np.ones(rng.randint(1 << 20, 8 << 20), np.uint8) for _ in range(3)]
    kept.append(np.ones(100_000, np.uint8))
    del large
print(resident() - before - sum(map(len, kept)) / 2**20)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="the rule is one of glibc")
def test_large_blocks_are_given_back() -> None:
    """Without the rule glibc keeps what was freed as holes between what is kept: MB that nobody uses."""

    def kept(how: str) -> float:
        answer = subprocess.run([sys.executable, "-c", KEPT, how], capture_output=True, text=True, check=True, timeout=60)
        return float(answer.stdout)

    assert kept("given back") < 3
    assert kept("as it is") > 10


def test_a_rule_of_the_environment_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MALLOC_MMAP_THRESHOLD_", "4194304")
    assert not give_large_blocks_back()
