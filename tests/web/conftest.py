"""A folder of small runs made by hand, and a client that has the token."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient
from torch._subclasses.fake_tensor import FakeTensorMode

from glassformer.runs.directory import RunDirectory
from glassformer.runs.records import MetricsLog
from glassformer.web.security import TOKEN_HEADER
from glassformer.web.server import make_app

TOKEN = "a-token-of-the-tests"
PORT = 4321
HOME = f"http://127.0.0.1:{PORT}"


def made_run(
    folder: Path, *, losses: tuple[float, ...] = (3.0, 2.0), status: str = "finished", **settings: Any
) -> RunDirectory:
    """The files of a run, without training one."""
    run = RunDirectory(folder)
    run.write_recipe({"about": "", "model": {"width": 8, **settings}, "seed": 1})
    run.write_environment({"threads": 1, "checks": {"judged": {"causality": "passed"}, "findings": []}})
    run.write_state(status, step=len(losses), steps=len(losses))
    for step, loss in enumerate(losses, start=1):
        MetricsLog(run.metrics_file).append({"step": step, "loss": loss + 0.5})
        MetricsLog(run.metrics_file).append({"step": step, "validation_loss": loss})
    return run


@pytest.fixture(autouse=True, scope="session")
def _fake_tensors_begin_in_the_main_thread() -> None:
    """torch 2.10 for CUDA, without a GPU, dies where the first thread that used fake tensors has ended: a server has one such
    thread for life, but each test its own server."""
    with FakeTensorMode():
        pass


@pytest.fixture
def make_run() -> Callable[..., RunDirectory]:
    return made_run


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place = tmp_path / "shown"
    made_run(place / "one")
    made_run(place / "two", width=16, losses=(4.0, 3.0, 2.5))
    return place


@pytest.fixture
def bare(folder: Path) -> Iterator[TestClient]:
    """A client without the token."""
    app = make_app(folder, token=TOKEN, host="127.0.0.1", port=PORT, warm=False)
    with TestClient(app, base_url=HOME, follow_redirects=False, raise_server_exceptions=False) as client:
        yield client


@pytest.fixture
def client(bare: TestClient) -> TestClient:
    bare.headers[TOKEN_HEADER] = TOKEN
    return bare
