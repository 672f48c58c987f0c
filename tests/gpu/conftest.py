"""Tests of this folder need a CUDA GPU: what a variant, a step and a run do there.

GLASSFORMER_GPU_TESTS_ON=cpu tries their logic where there is none.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
import torch

from glassformer.foundation.runtime import be_deterministic

DEVICE = os.environ.get("GLASSFORMER_GPU_TESTS_ON", "cuda")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if DEVICE == "cuda" and not torch.cuda.is_available():
        for item in items:
            if "tests/gpu/" in item.nodeid:
                item.add_marker(pytest.mark.skip(reason="needs a CUDA GPU"))


@pytest.fixture(autouse=True)
def _as_in_training(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Deterministic kernels only, as every run has them; products of float32 in float32, so that they can be compared."""
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)
    before = torch.get_deterministic_debug_mode()
    be_deterministic()
    yield
    torch.set_deterministic_debug_mode(before)


@pytest.fixture
def device() -> str:
    return DEVICE
