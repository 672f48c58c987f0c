"""What runs is what is checked: a fault in the compiled, the captured or the bf16 path alone is found before the first step.

The compiler and the recording are stood in for by plain functions, honest or with a fault; torch's own compiler has a slow
test, CUDA graphs need a GPU.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from tests.graphs import stand_in
from tests.refusals import refused
from tests.training.conftest import CONTEXT, VOCABULARY, SomeBatches, make_step  # noqa: F401
from torch import Tensor

from glassformer.checking import gate
from glassformer.checking.fast_paths import check_generation, check_step
from glassformer.checking.gate import require_generation, require_step
from glassformer.checks.check_report import CheckReport, Finding
from glassformer.experiment import train
from glassformer.foundation.errors import CheckFailed
from glassformer.foundation.runtime import bf16_works
from glassformer.generation.batch import BatchDecoder
from glassformer.model.config import ModelConfig
from glassformer.model.transformer import Transformer, build_model
from glassformer.training import cuda_graph
from glassformer.training.cuda_graph import GraphedStep
from glassformer.training.step import StepOutcome, TrainStep
from glassformer.training.step_acceleration import compile_loss

CAUSAL = frozenset({"causality"})
Loss = Callable[[dict[str, Tensor], Tensor | None], Tensor]


def with_ids(change: Callable[[Tensor], Tensor]) -> Callable[[Loss], Loss]:
    """A compiler whose code reads other ids than it was given."""
    return lambda loss: lambda tensors, dropout_seed: loss({**tensors, "ids": change(tensors["ids"])}, dropout_seed)


def backward_only(loss: Loss) -> Loss:
    """A compiler whose forward pass is right and whose gradients are half as long."""

    def compiled(tensors: dict[str, Tensor], dropout_seed: Tensor | None) -> Tensor:
        value = loss(tensors, dropout_seed)
        return value.detach() + 0.5 * (value - value.detach())

    return compiled


def drawing(loss: Loss) -> Loss:
    """A compiler whose dropout inside attention falls on other places than the plain step's; that is no fault."""

    def compiled(tensors: dict[str, Tensor], dropout_seed: Tensor | None) -> Tensor:
        torch.rand(3)
        return loss(tensors, dropout_seed)

    return compiled


COMPILERS: dict[str, tuple[Callable[[Loss], Loss], set[str]]] = {
    "honest": (lambda loss: loss, set()),
    "sees the next token": (with_ids(lambda ids: ids.roll(-1, 1)), {"causality", "path"}),
    "sees another row": (with_ids(lambda ids: ids.roll(1, 0)), {"batch", "path"}),
    "half the loss": (lambda loss: lambda tensors, dropout_seed: 0.5 * loss(tensors, dropout_seed), {"labels", "path"}),
    "wrong gradients": (backward_only, {"path"}),
    "draws other random numbers": (drawing, set()),
}


def compiled_step(
    make: Callable[..., TrainStep], monkeypatch: pytest.MonkeyPatch, compiler: Callable[[Loss], Loss], dropout: float = 0.0
) -> TrainStep:
    monkeypatch.setattr(torch, "compile", lambda loss, **options: compiler(loss))
    step = make(model={"dropout": dropout}, accumulate=2)
    compile_loss(step)
    return step


@pytest.mark.parametrize("name", COMPILERS)
def test_a_fault_of_the_compiled_loss_is_told_by_its_law(make_step, monkeypatch, name: str) -> None:  # noqa: F811
    compiler, broken = COMPILERS[name]
    step = compiled_step(
        make_step, monkeypatch, compiler, dropout=0.1 if name in ("honest", "draws other random numbers") else 0
    )
    weights = {key: tensor.clone() for key, tensor in step.loss_module.state_dict().items()}
    state = torch.get_rng_state()
    report = check_step(step, SomeBatches().batch(0), laws=CAUSAL, vocabulary=VOCABULARY)
    assert report.broken == broken, str(report)
    assert set(report.judged) == {"causality", "batch", "labels", "path"}
    assert all(torch.equal(tensor, weights[key]) for key, tensor in step.loss_module.state_dict().items())
    assert all(parameter.grad is None for parameter in step.loss_module.parameters())
    assert not step.optimizers.tensors()
    assert torch.equal(torch.get_rng_state(), state)


def test_a_plain_step_costs_nothing(make_step) -> None:  # noqa: F811
    def never() -> Any:
        raise AssertionError("no batch is needed")

    report = CheckReport("a model", tested={"batch": "tried"})
    assert require_step(report, make_step(), never, laws=CAUSAL, vocabulary=VOCABULARY) is report


def recorded_step(
    make: Callable[..., TrainStep], monkeypatch: pytest.MonkeyPatch, *, stale: bool, dropout: float
) -> GraphedStep:
    """A step "captured" on the CPU: replaying calls it again on the captured batch; a stale one never reads the new batch."""
    step = compiled_step(make, monkeypatch, lambda loss: loss, dropout)
    captured = GraphedStep(step)

    def capture(batch: Any) -> Any:
        copy, first = batch.clone(), batch.clone()
        first["ids"].zero_()
        outcome = StepOutcome(torch.zeros(()), torch.zeros(()))

        def replay() -> None:
            for place, value in zip(outcome, step.update(first if stale else copy)):
                if value is not None:
                    place.copy_(value)

        recording = cuda_graph._Recording(SimpleNamespace(replay=replay), outcome)  # type: ignore[arg-type]
        return cuda_graph._CapturedWhole(step, copy, recording)

    monkeypatch.setattr(captured, "_capture", capture)
    return captured


@pytest.mark.parametrize(("stale", "dropout"), [(False, 0.1), (True, 0.1), (True, 0.0)])
def test_a_recorded_step_is_held_to_the_uncaptured(make_step, monkeypatch, stale: bool, dropout: float) -> None:  # noqa: F811
    step = recorded_step(make_step, monkeypatch, stale=stale, dropout=dropout)
    weights = {key: tensor.clone() for key, tensor in step.uncaptured.loss_module.state_dict().items()}
    report = check_step(step, SomeBatches().batch(0), laws=CAUSAL, vocabulary=VOCABULARY)
    assert report.broken == ({"path"} if stale else set()), str(report)
    if stale:
        assert report.findings[0].where == "the captured step"
    assert all(torch.equal(tensor, weights[key]) for key, tensor in step.uncaptured.loss_module.state_dict().items())
    assert all(not tensor.any() for tensor in step.optimizers.tensors().values())  # as an optimizer's memory begins


def test_a_step_that_is_not_captured_after_all_has_no_checks_to_tell_of(make_step, monkeypatch, tmp_path) -> None:  # noqa: F811
    monkeypatch.setenv("GLASSFORMER_CACHE", str(tmp_path))
    wait, step, said = stand_in(monkeypatch), make_step(), []
    step.loss_module.network.final_norm.register_forward_hook(lambda *_: wait())
    report, watch = CheckReport("a model", tested={"batch": "tried"}), SimpleNamespace(say=said.append)
    refused, batches = GraphedStep(step), SomeBatches()
    for _ in range(2):
        found = require_step(
            report,
            refused,
            lambda: batches.batch(0),
            laws=CAUSAL,
            vocabulary=VOCABULARY,
            key="k",
            watch=watch,  # type: ignore[arg-type]
        )
        assert found is report
    assert said == []


def a_model() -> Transformer:
    return build_model(ModelConfig.parse({"width": 12, "heads": 3, "layers": 2, "context": CONTEXT}), VOCABULARY, seed=0)


def test_generation_in_low_precision_is_held_to_the_definition(monkeypatch) -> None:
    assert check_generation(a_model(), vocabulary=VOCABULARY, dtype=torch.float32).passed
    with monkeypatch.context() as patch:
        patch.setattr(BatchDecoder, "_prefill", lambda self, rows: [setattr(self.rows[row], "start", 0) for row in rows])
        report = check_generation(a_model(), vocabulary=VOCABULARY, dtype=torch.float32)
    assert report.broken == {"path"}
    assert report.findings[0].where == "generation in bf16"


def test_generation_in_bf16_where_this_machine_has_it() -> None:
    if not bf16_works("cpu"):
        pytest.skip("bf16 products do not work on this machine")
    report = check_generation(a_model(), vocabulary=VOCABULARY)
    assert report.passed, str(report)
    assert "generation in bf16 within" in report.tested["path"]


def test_generation_in_bf16_is_checked_before_its_first_text_and_remembered(monkeypatch, tmp_path) -> None:
    monkeypatch.setenv("GLASSFORMER_CACHE", str(tmp_path))
    broken = CheckReport("generation", findings=(Finding("path", "generation in bf16", 0, 0, 0.5, {}),))
    asked: list[CheckReport] = [CheckReport("generation", tested={"path": "tried"}), broken]
    monkeypatch.setattr(gate, "check_generation", lambda network, **_: asked.pop(0))
    model = ModelConfig.parse({"width": 12, "heads": 3, "layers": 2, "context": CONTEXT})
    for _ in range(2):
        require_generation(a_model(), model, "these weights", vocabulary=VOCABULARY)
    assert asked == [broken]
    for _ in range(2):
        asked[:] = [broken]
        with refused(CheckFailed, "generation-differs", "float32") as stopped:
            require_generation(a_model(), model, "other weights", vocabulary=VOCABULARY)
        assert stopped.value.only_differs


def test_scores_that_are_no_numbers_are_cannot_tell() -> None:
    model = a_model()
    torch.nn.init.constant_(model.embedding.weight, torch.nan)
    assert check_generation(model, vocabulary=VOCABULARY, dtype=torch.float32).judged == {"path": "cannot tell"}


def test_what_passed_is_remembered_under_its_key(make_step, monkeypatch, tmp_path) -> None:  # noqa: F811
    monkeypatch.setenv("GLASSFORMER_CACHE", str(tmp_path))
    step, asked = compiled_step(make_step, monkeypatch, lambda loss: loss), SomeBatches()
    plain, said = CheckReport("a model", tested={"batch": "tried"}), []
    watch: Any = SimpleNamespace(say=said.append)
    for _ in range(2):
        report = require_step(plain, step, lambda: asked.batch(0), laws=CAUSAL, vocabulary=VOCABULARY, key="k", watch=watch)
        assert report.subject == "a model"
        assert set(report.judged) == {"causality", "batch", "labels", "path"}
        assert report.tested["batch"].startswith("tried; the compiled loss")
    assert asked.asked == [0]
    assert said[0].partition(" in ")[0] == "Checks of the fast paths passed"
    assert said[1].startswith("Checks of the fast paths passed before")


@pytest.fixture
def leaking(monkeypatch: pytest.MonkeyPatch, unchecked: None) -> None:
    """The model is honest; what the compiler makes of its loss is not."""
    compiler, _ = COMPILERS["sees the next token"]
    monkeypatch.setattr(torch, "compile", lambda loss, **options: compiler(loss))


@pytest.mark.usefixtures("leaking")
def test_a_run_whose_compiled_loss_leaks_has_no_record(tiny, tmp_path) -> None:
    with refused(CheckFailed, "leak", "the compiled loss"):
        train(tiny, set={"training.compile": True}, out=tmp_path / "run")
    assert not list(tmp_path.glob("run/metrics.jsonl"))
    run = train(tiny, set={"training.compile": True}, out=tmp_path / "other", allow_leaks=True)
    environment = json.loads((run.folder / "environment.json").read_text())
    assert environment["checks"]["judged"]["causality"] == "broken"
    assert "causality at the compiled loss" in environment["tainted"]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_run_compiled_by_torch_is_checked_and_compiled_once(tiny, tmp_path, unchecked) -> None:
    from torch._dynamo.utils import counters

    torch._dynamo.reset()  # torch compiles one function a few times only, and other tests may have done so
    counters.clear()
    run = train(tiny, set={"training.compile": True}, out=tmp_path / "run")
    checks = json.loads((run.folder / "environment.json").read_text())["checks"]
    assert checks["judged"] == dict.fromkeys(("causality", "batch", "labels", "path"), "passed")
    assert counters["stats"]["unique_graphs"] == 1
