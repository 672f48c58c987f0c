"""The facts of the source tree for the tests of this folder (test folders are no packages)."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture(scope="session")
def tree() -> ModuleType:
    spec = importlib.util.spec_from_file_location("write_map_of_the_tests", Path(__file__).with_name("write_map.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up by name
    spec.loader.exec_module(module)
    return module
