"""The same step, faster: chosen where it pays and is possible, said, and equal to the reference implementation."""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch
from tests.training.conftest import CONTEXT

from glassformer.foundation.runtime import Precision, Runtime
from glassformer.training import fast
from glassformer.training.fast import (
    CAPTURING_PAYS_FROM,
    COMPILING_PAYS_FROM,
    GraphedStep,
    StepForm,
    accelerate,
    choose_form,
    compile_loss,
    training_flops,
)
from glassformer.training.step import TrainStep

LONG = 10**10
"""Steps of the tiny model for which compiling pays."""
needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")


class Listener:
    def __init__(self) -> None:
        self.said: list[str] = []

    def say(self, sentence: str) -> None:
        self.said.append(sentence)

    def progress(self, *arguments: object) -> None: ...


def chosen(step: TrainStep, steps: int, listener: Listener, before: dict[str, bool] | None = None) -> StepForm:
    return choose_form(step, step.config, steps, listener, before)


def test_a_processor_runs_the_definition_unless_asked(make_step) -> None:
    step, listener = make_step(), Listener()
    assert chosen(step, LONG, listener) == (False, False)
    assert listener.said == []
    assert accelerate(step, StepForm(False, False)) is step
    assert chosen(make_step(cuda_graph=True), LONG, listener) == (False, False)
    assert "no CUDA device" in listener.said[0]


def test_compiling_when_asked(make_step, some_batches, monkeypatch) -> None:
    """Compiling replaces the function of the loss and nothing else (the compiler itself is torch's)."""
    compiled: list[dict[str, object]] = []
    monkeypatch.setattr(torch, "compile", lambda function, **options: compiled.append(options) or function)
    step, listener = make_step(compile=True), Listener()
    assert accelerate(step, chosen(step, 5, listener)) is step
    assert compiled == [{"dynamic": False}]
    assert listener.said == ["compile: kernels are fused."]
    plain = make_step()
    assert torch.equal(step(some_batches().batch(0), 0, 1.0).loss, plain(some_batches().batch(0), 0, 1.0).loss)


@pytest.mark.parametrize(
    ("steps", "settings", "compiled", "captured"),
    [
        (LONG, {}, True, True),
        (LONG // 4, {}, False, True),
        (CAPTURING_PAYS_FROM - 1, {}, False, False),
        (5, {"compile": True}, True, True),
        (5, {"cuda_graph": True}, False, True),
        (2 * LONG, {"compile": False}, False, True),
        (2 * LONG, {"cuda_graph": False}, True, False),
        (2 * LONG, {"compile": False, "cuda_graph": False}, False, False),
    ],
)
def test_on_a_gpu_it_is_chosen_where_it_pays(
    make_step, monkeypatch, steps: int, settings: dict[str, object], compiled: bool, captured: bool
) -> None:
    monkeypatch.setattr(fast, "_can_compile", lambda: True)
    step, listener = make_step(**settings), Listener()
    step.runtime = Runtime(torch.device("cuda"), "float32", 1)
    assert chosen(step, steps, listener) == (compiled, captured)
    assert any("CUDA graph" in sentence for sentence in listener.said) == captured


def test_a_run_that_goes_on_stays_as_it_was_begun(make_step, monkeypatch) -> None:
    """More steps would choose otherwise; what the recipe says outright is done all the same."""
    monkeypatch.setattr(fast, "_can_compile", lambda: True)
    for begun in (StepForm(True, False), StepForm(False, False), StepForm(False, True)):
        step = make_step()
        step.runtime = Runtime(torch.device("cuda"), "float32", 1)
        assert chosen(step, LONG, Listener(), begun._asdict()) == begun
    step = make_step(compile=True)
    step.runtime = Runtime(torch.device("cuda"), "float32", 1)
    assert chosen(step, 40, Listener(), {"compiled": False, "captured": True}) == (True, True)


def test_how_long_a_training_is_counted_in_flops(make_step) -> None:
    step = make_step(batch_size=4)
    parameters = sum(parameter.numel() for parameter in step.loss_module.network.parameters())
    assert training_flops(step, 10) == 6 * parameters * 10 * 4 * CONTEXT
    assert training_flops(step, LONG // 4) < COMPILING_PAYS_FROM <= training_flops(step, LONG)


def test_without_triton_nothing_is_compiled_by_itself(make_step, monkeypatch) -> None:
    """Torch's compiler for CUDA needs it, and a run that was not asked to compile must not die of it."""
    monkeypatch.setattr(fast, "_can_compile", lambda: False)
    step, listener = make_step(), Listener()
    step.runtime = Runtime(torch.device("cuda"), "float32", 1)
    assert chosen(step, LONG, listener) == (False, True)
    assert "Triton" in listener.said[0]


@pytest.mark.parametrize(("optimizer", "capturable"), [("Adam", True), ("NAdam", False), ("Rprop", False), ("SGD", False)])
def test_an_optimizer_that_does_not_begin_with_zeros_is_not_captured(make_step, optimizer: str, capturable: bool) -> None:
    """A capture tries some steps, and then clears what the optimizer remembers of them."""
    step = make_step()
    step.optimizers.optimizers = [getattr(torch.optim, optimizer)(step.loss_module.network.parameters(), lr=0.1)]
    assert step.optimizers.capturable == capturable


def test_a_draw_on_the_processor_is_not_for_a_graph(monkeypatch) -> None:
    monkeypatch.setattr(torch.cuda, "get_sync_debug_mode", lambda: 0)
    monkeypatch.setattr(torch.cuda, "set_sync_debug_mode", lambda mode: None)
    for draw in (lambda: torch.rand(()), lambda: random.random(), lambda: np.random.rand()):
        with pytest.raises(fast._NotForAGraph, match="random numbers"), fast._only_kernels():
            draw()
    with fast._only_kernels():
        torch.ones(3).sum()


def test_a_step_that_makes_the_processor_wait_runs_as_it_is(make_step, some_batches, monkeypatch) -> None:
    monkeypatch.setattr("glassformer.training.optimizer_set.OptimizerSet.make_capturable", lambda self: None)
    listener, plain = Listener(), make_step()
    step = GraphedStep(make_step(), listener)

    def refuse(batch: object) -> object:
        raise fast._NotForAGraph("it makes the processor wait for the GPU")

    monkeypatch.setattr(step, "_capture", refuse)
    for number in range(3):
        expected = plain(some_batches().batch(number), number, 1.0)
        assert torch.equal(step(some_batches().batch(number), number, 1.0).loss, expected.loss)
    assert len(listener.said) == 1
    assert "wait" in listener.said[0]
    assert not step.replays


def test_more_pieces_record_anew(make_step, monkeypatch) -> None:
    monkeypatch.setattr("glassformer.training.optimizer_set.OptimizerSet.make_capturable", lambda self: None)
    recorded = GraphedStep(make_step())
    recorded._graphs["a shape"] = object()  # type: ignore[assignment]
    recorded.accumulate = 2
    assert recorded.accumulate == 2
    assert not recorded._graphs


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


def test_the_compiler_is_told_to_choose_kernels_without_timing(make_step, monkeypatch) -> None:
    import torch._inductor.config as inductor

    monkeypatch.setattr(torch, "compile", lambda function, **options: function)
    if not hasattr(inductor, "deterministic"):
        pytest.skip("this torch has no such setting")
    with inductor.patch(deterministic=False):  # monkeypatch would delete the setting afterwards, and nothing compiles without
        compile_loss(make_step())
        assert inductor.deterministic is True
    assert hasattr(inductor, "deterministic")
