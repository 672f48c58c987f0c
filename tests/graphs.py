"""CUDA graphs without a GPU: a capture tries the step as on one, and a replay calls it again on what was captured."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from glassformer.training import cuda_graph, step_acceleration
from glassformer.training.cuda_graph import GraphedStep
from glassformer.training.step_acceleration import StepForm

WAITED = "called a synchronizing CUDA operation"


def stand_in(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Puts them in place and gives ``wait``: called within a step, it does what ``.item()`` does on a GPU."""
    mode: list[Any] = [0]
    monkeypatch.setattr(torch.cuda, "get_sync_debug_mode", lambda: mode[-1])
    monkeypatch.setattr(torch.cuda, "set_sync_debug_mode", mode.append)
    monkeypatch.setattr(cuda_graph, "_on_a_side_stream", nullcontext)
    monkeypatch.setattr(cuda_graph, "_generators", tuple)  # what dropout draws here, it would draw on the GPU
    monkeypatch.setattr(GraphedStep, "_recorded", _recorded)

    def wait() -> None:
        if mode[-1] == "error":
            raise RuntimeError(WAITED)

    return wait


def captured_everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fresh run is captured whatever the device; one that goes on stays as it was begun."""

    def choose(step: Any, steps: int, before: Any, *_: Any) -> tuple[StepForm, str]:
        return StepForm(False, before["captured"] if before else True), ""

    monkeypatch.setattr(step_acceleration, "choose_form", choose)


def _recorded(self: GraphedStep, work: Callable[[], Any]) -> Any:
    written = work()
    places = (written,) if isinstance(written, torch.Tensor) else tuple(written)

    def replay() -> None:
        values = work()
        for place, value in zip(places, (values,) if isinstance(values, torch.Tensor) else tuple(values)):
            if value is not None:
                place.copy_(value)

    return cuda_graph._Recording(SimpleNamespace(replay=replay), written)  # type: ignore[arg-type]
