"""The service that lets processes share a GPU, with a stand-in for NVIDIA's program."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from glassformer.study.executors.local import LocalExecutor
from glassformer.study.executors.mps import CONTROL, SharedGPU


@pytest.fixture
def service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program that writes down how it was called; gives that list."""
    calls, program = tmp_path / "calls", tmp_path / "bin" / CONTROL
    program.parent.mkdir()
    program.write_text(
        f'#!/bin/sh\necho "$@ in $CUDA_MPS_PIPE_DIRECTORY" >> {calls}\n[ -n "$1" ] || cat >> {calls}\nexit ${{REFUSE:-0}}\n'
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    monkeypatch.delenv("CUDA_MPS_PIPE_DIRECTORY", raising=False)
    return calls


def test_the_service_is_started_once_and_ended(service: Path) -> None:
    shared = SharedGPU()
    shared.start()
    shared.start()
    folder = Path(shared.environment["CUDA_MPS_PIPE_DIRECTORY"])
    assert folder.is_dir()
    shared.close()
    assert service.read_text() == f"-d in {folder}\n in {folder}\nquit\n"
    assert not folder.exists()
    assert shared.environment == {}


def test_a_service_that_refuses_or_is_the_users_own_is_left_alone(service: Path, monkeypatch) -> None:
    monkeypatch.setenv("REFUSE", "1")
    shared = SharedGPU()
    shared.start()
    assert shared.environment == {}
    shared.close()
    monkeypatch.setenv("CUDA_MPS_PIPE_DIRECTORY", "/somewhere")
    SharedGPU().start()
    assert len(service.read_text().splitlines()) == 1


@pytest.mark.parametrize(
    ("jobs", "gpus", "started"), [(2, ["0"], True), (1, ["0"], False), (2, ["0", "1"], False), (2, [], False)]
)
def test_workers_that_share_a_gpu_share_the_service(service: Path, tmp_path, jobs: int, gpus: list[str], started: bool) -> None:
    with LocalExecutor(jobs, logs=tmp_path / "logs", gpus=gpus, gpu_bytes=1 << 40) as executor:
        executor.warm_up(jobs)
        assert ("CUDA_MPS_PIPE_DIRECTORY" in executor._environment(gpus[0] if gpus else None)) == started
    assert service.exists() == started
