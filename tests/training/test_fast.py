"""The same step, faster: chosen where it pays and is possible, said, and equal to the reference implementation."""

from __future__ import annotations

import pytest
import torch

from glassformer.foundation.runtime import Runtime
from glassformer.training import fast
from glassformer.training.fast import COMPILING_PAYS_FROM, GraphedStep, accelerate, compile_loss


class Listener:
    def __init__(self) -> None:
        self.said: list[str] = []

    def say(self, sentence: str) -> None:
        self.said.append(sentence)

    def progress(self, *arguments: object) -> None: ...


def test_a_processor_runs_the_definition_unless_asked(make_step) -> None:
    step, listener = make_step(), Listener()
    assert accelerate(step, step.config, 10 * COMPILING_PAYS_FROM, listener) is step
    assert listener.said == []


def test_compiling_when_asked(make_step, some_batches, monkeypatch) -> None:
    """Compiling replaces the function of the loss and nothing else (the compiler itself is torch's)."""
    compiled: list[dict[str, object]] = []
    monkeypatch.setattr(torch, "compile", lambda function, **options: compiled.append(options) or function)
    step, listener = make_step(compile=True), Listener()
    assert accelerate(step, step.config, 5, listener) is step
    assert compiled == [{"dynamic": False}]
    assert listener.said == ["compile: kernels are fused."]
    plain = make_step()
    assert torch.equal(step(some_batches().batch(0), 0, 1.0).loss, plain(some_batches().batch(0), 0, 1.0).loss)


@pytest.mark.parametrize(
    ("steps", "compile_", "recorded"),
    [(COMPILING_PAYS_FROM, "auto", True), (COMPILING_PAYS_FROM - 1, "auto", False), (5, True, True), (9999, False, False)],
)
def test_on_a_gpu_it_is_chosen_where_it_pays(make_step, monkeypatch, steps: int, compile_: object, recorded: bool) -> None:
    monkeypatch.setattr(fast, "compile_loss", lambda step: None)
    monkeypatch.setattr(fast.GraphedStep, "__init__", lambda self, step, clock: None)
    monkeypatch.setattr(fast, "has_triton", lambda: True)
    step = make_step(compile=compile_)
    step.runtime = Runtime(torch.device("cuda"), "float32", 1)
    assert isinstance(accelerate(step, step.config, steps, Listener()), GraphedStep) == recorded


def test_without_triton_nothing_is_compiled_by_itself(make_step, monkeypatch) -> None:
    """Torch's compiler for CUDA needs it, and a run that was not asked to compile must not die of it."""
    monkeypatch.setattr(fast, "has_triton", lambda: False)
    step = make_step()
    step.runtime = Runtime(torch.device("cuda"), "float32", 1)
    assert accelerate(step, step.config, 10 * COMPILING_PAYS_FROM, Listener()) is step


def test_more_pieces_record_anew(make_step, monkeypatch) -> None:
    monkeypatch.setattr("glassformer.training.optimizer_set.OptimizerSet.make_capturable", lambda self: None)
    recorded = GraphedStep(make_step())
    recorded._graphs["a shape"] = object()  # type: ignore[assignment]
    recorded.accumulate = 2
    assert recorded.accumulate == 2
    assert not recorded._graphs


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")
def test_a_recorded_step_is_the_definition(make_step, some_batches) -> None:
    results = []
    for record in (False, True):
        step = make_step(model={"dropout": 0.1})
        device = torch.device("cuda")
        step.loss_module.network.to(device)
        step.runtime = Runtime(device, "float32", 1)
        taken = GraphedStep(step) if record else step
        results.append([taken(some_batches().batch(n).to(device), n, 1.0).loss.item() for n in range(5)])
    assert results[0] == pytest.approx(results[1], rel=1e-4)


def test_the_compiler_is_told_to_choose_kernels_without_timing(make_step, monkeypatch) -> None:
    import torch._inductor.config as inductor

    monkeypatch.setattr(torch, "compile", lambda function, **options: function)
    if not hasattr(inductor, "deterministic"):
        pytest.skip("this torch has no such setting")
    monkeypatch.setattr(inductor, "deterministic", False)
    compile_loss(make_step())
    assert inductor.deterministic is True
