"""A trained run in a folder that is shown, and a client that has the token."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from glassformer.web.security import TOKEN_HEADER
from glassformer.web.server import make_app


@pytest.fixture(scope="session")
def trained_folder(tmp_path_factory: pytest.TempPathFactory, tiny_text: Path) -> Path:
    from glassformer.experiment import train

    folder = tmp_path_factory.mktemp("page")
    values: dict[str, Any] = {
        "data": {"path": str(tiny_text), "document": "line", "split": {"validation": 0.2, "test": 0.1}},
        "model": {"width": 8, "heads": 2, "layers": 1, "context": 16},
        "training": {"steps": 6, "batch_size": 4, "lr": 0.01, "device": "cpu", "precision": "float32", "log_every": 1},
        "evaluation": {"every": 3},
    }
    train(values, out=folder / "run")
    return folder


@pytest.fixture
def page(trained_folder: Path) -> Iterator[TestClient]:
    app = make_app(trained_folder, token="t", host="127.0.0.1", port=1, warm=False)
    with TestClient(app, base_url="http://127.0.0.1:1", headers={TOKEN_HEADER: "t"}, raise_server_exceptions=False) as client:
        yield client
