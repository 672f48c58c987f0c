"""Fixtures for all tests: one thread, no writing into the user's cache, real data only when it is there."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# A loaded machine must not fail a test: no time limit per example. Derandomised, so that a red run is red again.
settings.register_profile("steady", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("steady")

os.environ.setdefault("OMP_NUM_THREADS", "1")  # many small tests in parallel: more threads only wait for each other
os.environ.setdefault("MPLBACKEND", "agg")


@pytest.fixture(autouse=True, scope="session")
def _private_cache(tmp_path_factory: pytest.TempPathFactory) -> None:
    os.environ["GLASSFORMER_CACHE"] = str(tmp_path_factory.mktemp("cache"))


@pytest.fixture
def real_data() -> Path:
    """The folder of real data sets; skips with the reason when it is not there."""
    folder = os.environ.get("GLASSFORMER_DATA")
    if not folder or not Path(folder).is_dir():
        pytest.skip("GLASSFORMER_DATA is not set to a folder of real data sets")
    return Path(folder)


@pytest.fixture
def tiny_disk(tmp_path: Path) -> Iterator[Path]:
    """A real disk of one MiB (a tmpfs); skips where the tests may not mount one."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = os.geteuid() == 0 and subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)], capture_output=True, check=False
    )
    if not mounted or mounted.returncode:
        pytest.skip("mounting a small disk needs root")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)
