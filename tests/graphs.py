"""CUDA graphs without a GPU: a capture tries the step as on one, and a replay calls it again on the captured batch."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from glassformer.data.batches import Batch
from glassformer.training import cuda_graph, step_acceleration
from glassformer.training.cuda_graph import GraphedStep
from glassformer.training.step import StepOutcome
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


def _recorded(self: GraphedStep, copy: Batch) -> Any:
    outcome = StepOutcome(torch.zeros(()), torch.zeros(()))

    def replay() -> None:
        for place, value in zip(outcome, self.uncaptured.update(copy)):
            if place is not None and value is not None:  # no part has a loss of its own
                place.copy_(value)

    return cuda_graph._Captured(SimpleNamespace(replay=replay), copy, outcome)  # type: ignore[arg-type]
