"""A step captured as a CUDA graph: equal to the plain one, refused where a graph would not do the same, and then as before."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from tests.graphs import stand_in
from tests.listener import Listener

from glassformer.foundation.runtime import Precision, Runtime
from glassformer.training import cuda_graph
from glassformer.training.cuda_graph import GraphedStep
from glassformer.training.step import TrainStep

needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")


def test_a_draw_on_the_processor_is_not_for_a_graph(monkeypatch) -> None:
    monkeypatch.setattr(torch.cuda, "get_sync_debug_mode", lambda: 0)
    monkeypatch.setattr(torch.cuda, "set_sync_debug_mode", lambda mode: None)
    for draw in (lambda: torch.rand(()), lambda: random.random(), lambda: np.random.rand()):
        with pytest.raises(cuda_graph._NotForAGraph, match="random numbers"), cuda_graph._only_kernels():
            draw()
    with cuda_graph._only_kernels():
        torch.ones(3).sum()


def test_a_step_that_makes_the_processor_wait_runs_as_it_is(make_step, some_batches, monkeypatch) -> None:
    listener, plain = Listener(), make_step()
    plain.optimizers.make_capturable()
    step = GraphedStep(make_step(), listener)

    def refuse(batch: object) -> object:
        raise cuda_graph._NotForAGraph("it makes the CPU wait for the GPU")

    monkeypatch.setattr(step, "_capture", refuse)
    for number in range(3):
        expected = plain(some_batches().batch(number), number, 1.0)
        assert torch.equal(step(some_batches().batch(number), number, 1.0).loss, expected.loss)
    assert listener.said == [
        "CUDA graph: this step cannot be captured and runs without one, because it makes the CPU wait for the GPU."
    ]
    assert not step.replays(some_batches().batch(0))


def test_a_replay_calls_nothing_of_the_network(make_step, some_batches, monkeypatch) -> None:
    """What the network checks in Python (shapes, the order of its layers) is checked when a step is captured, and no more."""
    stand_in(monkeypatch)
    recorded = GraphedStep._recorded

    def only_kernels(self: GraphedStep, work: Any) -> Any:
        return recorded(self, work)._replace(graph=SimpleNamespace(replay=lambda: None))

    monkeypatch.setattr(GraphedStep, "_recorded", only_kernels)
    step, calls = GraphedStep(make_step()), []
    network = step.uncaptured.loss_module.network
    for name in ("features", "logits"):
        own = getattr(network, name)
        monkeypatch.setattr(network, name, lambda *a, own=own, name=name, **k: (calls.append(name), own(*a, **k))[1])
    step(some_batches().batch(0), 0, 1.0)
    of_the_capture = len(calls)
    for number in range(1, 4):
        step(some_batches().batch(number), number, 1.0)
    assert 0 < of_the_capture == len(calls)


def test_one_shape_may_be_replayed_and_another_run_as_it_is(make_step, some_batches, monkeypatch) -> None:
    """Whichever comes first: a run that is resumed between them does the same."""
    wait, short = stand_in(monkeypatch), some_batches(rows=2)
    for order in ((short, some_batches()), (some_batches(), short)):
        graphed_step = GraphedStep(make_step(batch_size=2))
        network = graphed_step.uncaptured.loss_module.network
        network.embedding.register_forward_hook(lambda module, given, result: wait() if len(given[0]) == 2 else None)
        for batches in order:
            graphed_step(batches.batch(0), 0, 1.0)
        assert [graphed_step.replays(batches.batch(0)) for batches in (short, some_batches())] == [False, True]


@pytest.mark.parametrize("refused", [False, True])
def test_a_capture_leaves_everything_as_it_was(make_step, some_batches, monkeypatch, refused: bool) -> None:
    """Buffers as well: one that counts calls must not count those of a trial."""
    wait, step = stand_in(monkeypatch), make_step(model={"dropout": 0.1})
    network = step.loss_module.network
    network.register_buffer("calls", torch.zeros(()))
    network.final_norm.register_forward_hook(lambda *_: network.calls.add_(1) and None)
    if refused:
        network.final_norm.register_forward_hook(lambda *_: wait())
    step(some_batches().batch(0), 0, 1.0)
    weights = {name: tensor.clone() for name, tensor in step.loss_module.state_dict().items()}
    memory = {name: tensor.clone() for name, tensor in step.optimizers.tensors().items()}
    captured = GraphedStep(step)
    assert (captured.capture(some_batches().batch(1)) is not None) == refused
    assert network.calls == 1
    assert all(torch.equal(tensor, weights[name]) for name, tensor in step.loss_module.state_dict().items())
    assert all(torch.equal(tensor, memory[name]) for name, tensor in step.optimizers.tensors().items())
    plain = captured.given_up()
    assert isinstance(plain.optimizers.optimizers[0].param_groups[0]["lr"], float)
    assert all(torch.equal(tensor, memory[name]) for name, tensor in plain.optimizers.tensors().items())


def test_more_pieces_record_anew(make_step) -> None:
    recorded = GraphedStep(make_step())
    recorded._graphs["a shape"] = object()  # type: ignore[assignment]
    recorded._refused["another"] = "it waits"
    recorded.accumulate = 2
    assert recorded.accumulate == 2
    assert not recorded._graphs
    assert not recorded._refused


def on_cuda(step: TrainStep, precision: Precision = "float32") -> TrainStep:
    step.loss_module.network.to("cuda")
    step.runtime = step.loss_module.runtime = Runtime(torch.device("cuda"), precision, 1)
    return step


@needs_cuda
@pytest.mark.parametrize("precision", ["float32", "bf16"])
@pytest.mark.parametrize("model", [{"dropout": 0.1}, {"positions": "alibi"}, {"positions": "rotary", "block": "post"}])
def test_a_recorded_step_is_the_definition(make_step, some_batches, precision: Precision, model: dict[str, object]) -> None:
    """The kernels are the same, and so are their random numbers: the same bits but for the optimizer's count on the device."""
    results = []
    for record in (False, True):
        step = on_cuda(make_step(model=model), precision)
        taken = GraphedStep(step) if record else step
        results.append([taken(some_batches().batch(n).to("cuda"), n, 1.0).loss.item() for n in range(5)])
        assert not record or taken._graphs
    assert results[0][0] == results[1][0]
    assert results[0] == pytest.approx(results[1], rel=1e-4 if precision == "float32" else 1e-2)


@needs_cuda
def test_a_step_with_a_pause_is_found_before_it_is_captured(make_step, some_batches) -> None:
    plain, paused, listener = on_cuda(make_step(model={"dropout": 0.1})), on_cuda(make_step(model={"dropout": 0.1})), Listener()
    norm = paused.loss_module.network.final_norm
    norm.register_forward_hook(lambda module, given, result: result * float(result.mean() < 1e9))
    step = GraphedStep(paused, listener)
    plain.optimizers.make_capturable()
    for number in range(3):
        batch = some_batches().batch(number).to("cuda")
        assert step(batch, number, 1.0).loss.item() == plain(batch, number, 1.0).loss.item()
    assert len(listener.said) == 1
