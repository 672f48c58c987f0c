"""CUDA graphs of a step: on a GPU they do what the step does; only a model on CUDA without hooks is captured."""

from __future__ import annotations

from types import SimpleNamespace
from weakref import WeakMethod

import pytest
import torch

from glassformer.generation.cuda.graphs import WARM_UP, CUDAGraphSteps, can_capture


class Counter:
    """A step whose state is two tensors: it adds ``rows`` to one and writes that times ``length`` into the other."""

    def __init__(self, device: str = "cpu") -> None:
        self.total = torch.zeros(2, dtype=torch.long, device=device)
        self.result = torch.zeros_like(self.total)
        self.runs = 0

    def step(self, rows: int, length: int) -> None:
        self.runs += 1
        self.total.add_(rows)
        self.result.copy_(self.total * length)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")
def test_replays_on_a_gpu_what_the_step_does():
    plain, counter = Counter("cuda"), Counter("cuda")
    steps_by_graph = CUDAGraphSteps(WeakMethod(counter.step), [counter.total, counter.result])
    for rows, length in [(1, 3), (1, 3), (2, 3), (1, 5), (1, 3)]:
        steps_by_graph(rows, length, 1)
        plain.step(rows, length)
        assert counter.result.tolist() == plain.result.tolist()
    assert counter.runs == 3 * (WARM_UP + 1)  # three pairs of arguments


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")
def test_replays_on_a_gpu_several_steps_at_once():
    plain, counter = Counter("cuda"), Counter("cuda")
    steps_by_graph = CUDAGraphSteps(WeakMethod(counter.step), [counter.total, counter.result], together=4)
    for steps in (3, 9, 4):
        steps_by_graph(2, 3, steps)
        for _ in range(steps):
            plain.step(2, 3)
        assert counter.result.tolist() == plain.result.tolist()
    assert counter.runs == (WARM_UP + 1) + (WARM_UP + 4)


def test_only_a_model_on_cuda_that_nobody_looks_into_is_captured(monkeypatch):
    model = torch.nn.Linear(2, 3)
    assert not can_capture(model)
    monkeypatch.setattr(model, "parameters", lambda: iter([SimpleNamespace(device=SimpleNamespace(type="cuda"))]))
    assert can_capture(model)
    handle = model.register_forward_hook(lambda *arguments: None)
    assert not can_capture(model)
    handle.remove()
    assert can_capture(model)
