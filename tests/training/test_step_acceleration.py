"""The same step, faster: chosen where it pays and is possible, said, and equal to the reference implementation."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from tests.graphs import stand_in
from tests.listener import Listener
from tests.training.conftest import CONTEXT

from glassformer.foundation.runtime import Runtime
from glassformer.training import step_acceleration as step_form
from glassformer.training.cuda_graph import GraphedStep
from glassformer.training.step import TrainStep
from glassformer.training.step_acceleration import (
    CAPTURING_PAYS_FROM,
    COMPILING_IN_A_STUDY_PAYS_FROM,
    COMPILING_PAYS_FROM,
    StepForm,
    accelerate,
    choose_form,
    compile_loss,
    compiling_pays,
    fastest_form,
    form_of,
    training_flops,
)

LONG = 10**10
"""Steps of the tiny model for which compiling pays."""


def chosen(step: TrainStep, steps: int, listener: Listener, before: dict[str, bool] | None = None) -> StepForm:
    return choose_form(step, steps, before, 0.0, listener)[0]


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
    assert fastest_form(step, 5, some_batches().batch, watch=listener) is step
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
    monkeypatch.setattr(step_form, "compiles_on", lambda device: True)
    step, listener = make_step(**settings), Listener()
    step.runtime = Runtime(torch.device("cuda"), "float32", 1)
    assert chosen(step, steps, listener) == (compiled, captured)


def test_a_run_that_goes_on_stays_as_it_was_begun(make_step, monkeypatch) -> None:
    """More steps would choose otherwise; what the recipe says outright is done all the same."""
    monkeypatch.setattr(step_form, "compiles_on", lambda device: True)
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


@pytest.mark.parametrize(
    ("flops", "planned", "pays"),
    [
        (COMPILING_PAYS_FROM, 0.0, True),
        (0.9 * COMPILING_PAYS_FROM, 0.0, False),
        (COMPILING_IN_A_STUDY_PAYS_FROM, COMPILING_PAYS_FROM, True),
        (COMPILING_IN_A_STUDY_PAYS_FROM, 0.9 * COMPILING_PAYS_FROM, False),
        (0.9 * COMPILING_IN_A_STUDY_PAYS_FROM, 100 * COMPILING_PAYS_FROM, False),  # every trial compiles for seconds
    ],
)
def test_in_a_study_shorter_runs_are_compiled(flops: float, planned: float, pays: bool) -> None:
    assert compiling_pays(flops, planned) is pays


def test_what_a_study_plans_is_counted(make_step, monkeypatch) -> None:
    monkeypatch.setattr(step_form, "compiles_on", lambda device: True)
    step = make_step()
    step.runtime = Runtime(torch.device("cuda"), "float32", 1)
    short = int(LONG * COMPILING_IN_A_STUDY_PAYS_FROM / COMPILING_PAYS_FROM)
    for planned, compiled in ((0.0, False), (1.0, False), (COMPILING_PAYS_FROM, True)):
        assert choose_form(step, short, None, planned, Listener())[0].compiled is compiled
    assert "this study is too short" in choose_form(step, short, None, 1.0, Listener())[1]


def test_without_triton_nothing_is_compiled_by_itself(make_step, monkeypatch) -> None:
    """Torch's compiler for CUDA needs it, and a run that was not asked to compile must not die of it."""
    monkeypatch.setattr(step_form, "compiles_on", lambda device: False)
    step, listener = make_step(), Listener()
    step.runtime = Runtime(torch.device("cuda"), "float32", 1)
    assert chosen(step, LONG, listener) == (False, True)
    assert "Triton" in choose_form(step, LONG, None, 0.0, Listener())[1]


@pytest.mark.parametrize(("optimizer", "capturable"), [("Adam", True), ("NAdam", False), ("Rprop", False), ("SGD", False)])
def test_an_optimizer_that_does_not_begin_with_zeros_is_not_captured(make_step, optimizer: str, capturable: bool) -> None:
    """A capture tries some steps, and then clears what the optimizer remembers of them."""
    step = make_step()
    step.optimizers.optimizers = [getattr(torch.optim, optimizer)(step.loss_module.network.parameters(), lr=0.1)]
    assert step.optimizers.capturable == capturable


def test_the_compiler_is_told_to_choose_kernels_without_timing(make_step, monkeypatch) -> None:
    import torch._inductor.config as inductor

    monkeypatch.setattr(torch, "compile", lambda function, **options: function)
    if not hasattr(inductor, "deterministic"):
        pytest.skip("this torch has no such setting")
    with inductor.patch(deterministic=False):  # monkeypatch would delete the setting afterwards, and nothing compiles without
        compile_loss(make_step())
        assert inductor.deterministic is True
    assert hasattr(inductor, "deterministic")


class Waiting:
    """A hook that makes the step wait, where it is told to."""

    def __init__(self, wait: Callable[[], None]) -> None:
        self.wait, self.on = wait, True

    def __call__(self, *arguments: object) -> None:
        if self.on:
            self.wait()


@pytest.mark.parametrize(
    ("compiled", "waits", "sentence"),
    [
        (
            False,
            False,
            "compile: the whole step is replayed as a CUDA graph; nothing is compiled, because this run is too short.",
        ),
        (True, False, "compile: kernels are fused, and the whole step is replayed as a CUDA graph."),
        (
            False,
            True,
            "compile: nothing is compiled, because this run is too short; the step is not replayed as a CUDA graph, because "
            "it makes the CPU wait for the GPU.",
        ),
        (
            True,
            True,
            "compile: kernels are fused; the step is not replayed as a CUDA graph, because it makes the CPU wait for the GPU.",
        ),
    ],
)
def test_what_runs_is_said_once_and_told(
    make_step, some_batches, monkeypatch, compiled: bool, waits: bool, sentence: str
) -> None:
    wait = stand_in(monkeypatch)
    monkeypatch.setattr(torch, "compile", lambda function, **options: function)
    because = "" if compiled else ", because this run is too short"
    monkeypatch.setattr(step_form, "choose_form", lambda *_: (StepForm(compiled, True), because))
    step, listener = make_step(), Listener()
    if waits:
        step.loss_module.network.final_norm.register_forward_hook(Waiting(wait))
    begun = fastest_form(step, 50, lambda: some_batches().batch(0), watch=listener)
    for number in range(3):
        begun(some_batches().batch(number), number, 1.0)
    assert listener.said == [sentence]
    assert form_of(begun) == (compiled, not waits)


def test_a_refused_step_is_the_plain_one_bit_for_bit(make_step, some_batches, monkeypatch) -> None:
    """A rate that a graph can read is rounded to float32: with it the weights would be others."""
    wait = stand_in(monkeypatch)
    monkeypatch.setattr(step_form, "choose_form", lambda *_: (StepForm(False, True), ""))
    plain, refused = make_step(lr=0.1), make_step(lr=0.1)
    refused.loss_module.network.final_norm.register_forward_hook(Waiting(wait))
    begun = fastest_form(refused, 50, lambda: some_batches().batch(0))
    assert begun is refused
    assert not begun.optimizers.tensors()
    for number in range(3):
        for step in (plain, begun):
            step(some_batches().batch(number), number, 1 / 3)
    for name, tensor in plain.loss_module.state_dict().items():
        assert torch.equal(tensor, begun.loss_module.state_dict()[name]), name


def test_a_run_begun_as_captured_goes_on_with_what_captures(make_step, some_batches, monkeypatch) -> None:
    """Its optimizer was made for capturing, whether a graph is replayed or refused."""
    wait, listener = stand_in(monkeypatch), Listener()
    monkeypatch.setattr(step_form, "choose_form", lambda *_: (StepForm(False, True), ""))
    step = make_step()
    step.loss_module.network.final_norm.register_forward_hook(Waiting(wait))
    before = {"compiled": False, "captured": True}
    begun = fastest_form(step, 50, lambda: some_batches().batch(0), watch=listener, before=before)
    begun(some_batches().batch(0), 0, 1.0)
    assert isinstance(begun, GraphedStep)
    assert isinstance(begun.optimizers.optimizers[0].param_groups[0]["lr"], torch.Tensor)
    assert len(listener.said) == 1


def test_no_room_for_the_trial_is_for_training_to_see_to(make_step, some_batches, monkeypatch) -> None:
    monkeypatch.setattr(step_form, "choose_form", lambda *_: (StepForm(False, True), ""))

    def full(self: object, batch: object) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(GraphedStep, "_capture", full)
    assert isinstance(fastest_form(make_step(), 50, lambda: some_batches().batch(0)), GraphedStep)
