"""For tests of the CUDA decoder without a GPU: every step is taken as it is instead of by a CUDA graph."""

from __future__ import annotations

import pytest

from glassformer.generation.cuda import decoder


class EagerSteps:
    def __init__(self, step, state, together) -> None:
        self.step = step

    def __call__(self, rows: int, length: int, steps: int) -> None:
        for _ in range(steps):
            self.step()(rows, length)


@pytest.fixture
def eager(monkeypatch):
    """Also empties the store of cached decoders; gives that store."""
    monkeypatch.setattr(decoder, "CUDAGraphSteps", EagerSteps)
    store = type(decoder._DECODERS)()
    monkeypatch.setattr(decoder, "_DECODERS", store)
    return store
