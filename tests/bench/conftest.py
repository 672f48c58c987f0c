"""The script that a test is about: of tests/bench/test_NAME.py, bench/NAME.py as a module."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture
def bench(request: pytest.FixtureRequest) -> ModuleType:
    name = request.path.stem.removeprefix("test_")
    spec = importlib.util.spec_from_file_location(f"bench_{name}", Path(__file__).parents[2] / "bench" / f"{name}.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
