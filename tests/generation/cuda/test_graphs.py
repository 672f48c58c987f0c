"""Recordings: on a GPU where there is one, and everywhere with a stand-in for CUDA's graphs that keeps their rules."""

from __future__ import annotations

import contextlib
from types import SimpleNamespace
from weakref import WeakMethod

import pytest
import torch

from glassformer.generation.cuda import graphs as replay
from glassformer.generation.cuda.graphs import WARM_UP, Recorded, can_record, modules_of


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


@pytest.fixture
def graphs(monkeypatch):
    """CUDA graphs by re-running: recording leaves the state alone."""

    class Graph:
        def replay(self) -> None:
            self.run()

    @contextlib.contextmanager
    def record(graph, pool):
        before = graph.counter.total.clone()
        yield
        graph.counter.total.copy_(before)

    fake = SimpleNamespace(
        graph_pool_handle=lambda: None,
        current_stream=lambda: SimpleNamespace(wait_stream=lambda other: None),
        Stream=lambda: SimpleNamespace(wait_stream=lambda other: None),
        stream=lambda aside: contextlib.nullcontext(),
        CUDAGraph=Graph,
        graph=record,
    )
    monkeypatch.setattr(replay.torch, "cuda", fake)
    return Graph


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")
def test_replays_on_a_gpu_what_the_step_does():
    plain, counter = Counter("cuda"), Counter("cuda")
    recorded = Recorded(WeakMethod(counter.step), [counter.total, counter.result])
    for rows, length in [(1, 3), (1, 3), (2, 3), (1, 5), (1, 3)]:
        recorded(rows, length, 1)
        plain.step(rows, length)
        assert counter.result.tolist() == plain.result.tolist()
    assert counter.runs == 3 * (WARM_UP + 1)  # three pairs of arguments


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")
def test_replays_on_a_gpu_several_steps_at_once():
    plain, counter = Counter("cuda"), Counter("cuda")
    recorded = Recorded(WeakMethod(counter.step), [counter.total, counter.result], together=4)
    for steps in (3, 9, 4):
        recorded(2, 3, steps)
        for _ in range(steps):
            plain.step(2, 3)
        assert counter.result.tolist() == plain.result.tolist()
    assert counter.runs == (WARM_UP + 1) + (WARM_UP + 4)


@pytest.mark.parametrize(("together", "recordings"), [(1, 3), (2, 5), (9, 3)])
def test_replays_what_the_step_does(graphs, together, recordings):
    plain, counter = Counter(), Counter()
    recorded = Recorded(WeakMethod(counter.step), [counter.total, counter.result], together=together)
    replayed = []

    def attach(rows: int, length: int, steps: int):
        graph = original(rows, length, steps)

        def run() -> None:
            replayed.append(steps)
            for _ in range(steps):
                counter.step(rows, length)

        graph.run = run
        return graph

    original, recorded._record = recorded._record, attach
    graphs.counter = counter
    for rows, length, steps in [(1, 3, 1), (1, 3, 5), (2, 3, 4), (1, 5, 3), (1, 3, 2)]:
        replayed.clear()
        recorded(rows, length, steps)
        for _ in range(steps):
            plain.step(rows, length)
        assert counter.result.tolist() == plain.result.tolist()
        assert len(replayed) == steps // together + steps % together
    assert len(recorded._recordings) == recordings


def test_only_a_model_on_cuda_that_nobody_looks_into_is_recorded(monkeypatch):
    model = torch.nn.Linear(2, 3)
    assert not can_record(model)
    monkeypatch.setattr(model, "parameters", lambda: iter([SimpleNamespace(device=SimpleNamespace(type="cuda"))]))
    assert can_record(model)
    handle = model.register_forward_hook(lambda *arguments: None)
    assert not can_record(model)
    handle.remove()
    assert can_record(model)


def test_modules_of_a_model_are_those_torch_knows():
    class Empty(torch.nn.Dropout):
        def __len__(self) -> int:  # such a module is false
            return 0

    inner = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.Sequential(torch.nn.ReLU()))
    inner.register_module("nothing", None)
    model = torch.nn.ModuleDict({"one": inner, "two": Empty()})
    assert {id(module) for module in modules_of(model)} == {id(module) for module in model.modules()}
    assert len(modules_of(model)) == 6
