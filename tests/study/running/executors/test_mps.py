"""The service that lets processes share a GPU, with a stand-in for NVIDIA's program."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from glassformer.study.running.executors import mps
from glassformer.study.running.executors.local import LocalExecutor
from glassformer.study.running.executors.mps import CONTROL, SharedGPU


@pytest.fixture
def service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program that writes down how it was called; gives that list."""
    calls, program = tmp_path / "calls", tmp_path / "bin" / CONTROL
    program.parent.mkdir()
    program.write_text(
        f'#!/bin/sh\necho "$@ in $CUDA_MPS_PIPE_DIRECTORY of $CUDA_VISIBLE_DEVICES" >> {calls}\n'
        f'[ -n "$1" ] || cat >> {calls}\nexit ${{REFUSE:-0}}\n'
    )
    program.chmod(0o755)
    monkeypatch.setattr(mps, "USUAL_PLACE", tmp_path / "nobody's")
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2,3")
    monkeypatch.delenv("CUDA_MPS_PIPE_DIRECTORY", raising=False)
    return calls


def test_the_service_is_started_once_sees_all_gpus_and_is_ended(service: Path) -> None:
    shared = SharedGPU()
    shared.start()
    shared.start()
    folder = Path(shared.environment["CUDA_MPS_PIPE_DIRECTORY"])
    assert folder.is_dir()
    shared.close()
    assert service.read_text() == f"-d in {folder} of \n in {folder} of \nquit\n"
    assert not folder.exists()
    assert shared.environment == {}


def test_a_service_that_refuses_or_is_there_already_is_left_alone(service: Path, monkeypatch, tmp_path) -> None:
    monkeypatch.setenv("REFUSE", "1")
    shared = SharedGPU()
    shared.start()
    assert shared.environment == {}
    shared.close()
    monkeypatch.setenv("REFUSE", "0")
    (tmp_path / "usual").mkdir()
    (tmp_path / "usual" / "control").touch()
    with monkeypatch.context() as patch:
        patch.setattr(mps, "USUAL_PLACE", tmp_path / "usual")
        SharedGPU().start()
    monkeypatch.setenv("CUDA_MPS_PIPE_DIRECTORY", "/somewhere")
    SharedGPU().start()
    assert len(service.read_text().splitlines()) == 1


def test_it_ends_with_a_driver_that_is_killed(service: Path) -> None:
    program = (
        "import os, signal\nfrom glassformer.study.running.executors.mps import SharedGPU\n"
        "shared = SharedGPU()\nshared.start()\n"
        "print(shared.environment['CUDA_MPS_PIPE_DIRECTORY'], flush=True)\nos.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == -9
    until = time.monotonic() + 300
    while Path(done.stdout.strip()).exists() and time.monotonic() < until:
        time.sleep(0.05)
    assert not Path(done.stdout.strip()).exists()
    assert service.read_text().endswith("quit\n")


@pytest.mark.parametrize(
    ("jobs", "gpus", "started"), [(2, ["0"], True), (1, ["0"], False), (2, ["0", "1"], False), (2, [], False)]
)
def test_workers_that_share_a_gpu_share_the_service(service: Path, tmp_path, jobs: int, gpus: list[str], started: bool) -> None:
    with LocalExecutor(jobs, logs=tmp_path / "logs", gpus=gpus, gpu_bytes=1 << 40) as executor:
        executor.warm_up(jobs)
        assert ("CUDA_MPS_PIPE_DIRECTORY" in executor._environment(gpus[0] if gpus else None)) == started
    assert service.exists() == started


def test_after_a_process_was_lost_the_next_ones_do_without(service: Path, tmp_path) -> None:
    with LocalExecutor(2, logs=tmp_path / "logs", gpus=["0"], gpu_bytes=1 << 40) as executor:
        executor.warm_up(2)
        executor._workers[0].process.kill()
        executor._lost(executor._workers[0])
        assert "CUDA_MPS_PIPE_DIRECTORY" not in executor._environment("0")
    assert service.read_text().endswith("quit\n")
