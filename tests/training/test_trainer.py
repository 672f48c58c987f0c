"""The loop: when it evaluates and saves, how it ends, what it does when memory runs out; laws, with a real model."""

from __future__ import annotations

import math
import signal
from dataclasses import replace
from typing import Any

import pytest
import torch
from tests.refusals import refused

from glassformer.foundation.errors import Diverged, Interrupted, OutOfMemory
from glassformer.training.config import CheckpointConfig, EvaluationConfig
from glassformer.training.signals import StopRequested, StopSignal
from glassformer.training.step import StepOutcome
from glassformer.training.trainer import Callbacks, Trainer, TrainingState


class Scene:
    """A trainer with everything around it written down."""

    def __init__(self, make_step, batches, *, steps: int = 10, losses=None, recorded=None, **settings: Any) -> None:
        self.records: list[dict[str, Any]] = []
        self.spent: list[dict[str, Any]] = []
        self.saved: list[int] = []
        self.states: list[dict[str, Any]] = []
        self.said: list[str] = []
        self.shown: list[tuple] = []
        self.evaluations = 0
        self.losses = losses
        self.stop = StopSignal()
        training = {"steps": steps, "batch_size": 4, **settings.pop("training", {})}
        model = settings.pop("model", None)
        self.step = make_step(model=model, **training)
        self.batches = batches
        self.trainer = Trainer(
            self.step,
            batches,
            steps=steps,
            evaluation=EvaluationConfig.parse(settings.pop("evaluation", {})),
            checkpoint=CheckpointConfig.parse(settings.pop("checkpoint", {})),
            callbacks=Callbacks(
                evaluate=None if losses is None else self.evaluate,
                record=self.record,
                save=self.save,
                recorded=recorded or (lambda step: None),
                watch=self,
            ),
            stop=self.stop,
        )
        assert not settings

    def evaluate(self) -> dict[str, float]:
        self.evaluations += 1
        self.stop.check()
        loss = self.losses(self) if callable(self.losses) else self.losses[self.evaluations - 1]
        return {"validation_loss": loss}

    def record(self, values: dict[str, Any]) -> None:
        """What a run without evaluations has spent stands apart from the steps."""
        (self.records if "loss" in values or "validation_loss" in values else self.spent).append(values)

    def save(self, state: TrainingState) -> None:
        self.saved.append(state.step)
        self.states.append(state.to_dict())

    def say(self, sentence: str) -> None:
        self.said.append(sentence)

    def progress(self, what: str, done: float, total: float, facts: dict[str, Any] | None = None) -> None:
        self.shown.append((what, done, total, facts))

    @property
    def evaluated_at(self) -> list[int]:
        return [record["step"] for record in self.records if "validation_loss" in record]


@pytest.fixture
def scene(make_step, some_batches):
    return lambda **settings: Scene(make_step, some_batches(), **settings)


def test_every_step_is_taken_once_recorded_and_shown(scene) -> None:
    around = scene(steps=7)
    state = around.trainer.run(TrainingState())
    assert state.step == 7
    assert around.batches.asked == list(range(7))
    assert [record["step"] for record in around.records] == list(range(1, 8))
    assert all(math.isfinite(record["loss"]) and record["grad_norm"] > 0 for record in around.records)
    assert [shown[1:3] for shown in around.shown] == [(step, 7) for step in range(1, 8)]
    assert {"loss", "tokens/s"} == set(around.shown[-1][3])


def test_a_run_without_evaluations_records_what_it_took(scene) -> None:
    around = scene(steps=3)
    around.trainer.run(TrainingState())
    (spent,) = around.spent
    assert spent["step"] == 3
    assert spent["tokens"] == sum(around.batches.batch(step).numel for step in range(3))
    assert spent["seconds"] > 0 < spent["tokens_per_second"]


def test_the_recorded_rate_is_that_of_the_schedule(scene) -> None:
    around = scene(steps=4, training={"lr": 0.5, "schedule": {"kind": "linear", "warmup": 1, "final": 0.0}})
    around.trainer.run(TrainingState())
    assert [record["lr"] for record in around.records] == pytest.approx([0.25, 0.5, 0.5 * 2 / 3, 0.5 / 3])


def test_when_it_evaluates_and_saves(scene) -> None:
    around = scene(steps=10, losses=[3.0, 2.0, 1.0, 1.5], evaluation={"every": 3}, checkpoint={"every": 4})
    around.trainer.run(TrainingState())
    assert around.evaluated_at == [3, 6, 9, 10]  # and at the end
    assert around.saved == [4, 8, 10]


def test_an_evaluation_is_told_in_figures(scene) -> None:
    around = scene(steps=2, losses=[3.0], evaluation={"every": 2})
    figures = {"validation_accuracy": 0.5, "validation_loss": 3.0, "validation_collapsed_to": 1.0}
    around.trainer.callbacks = replace(around.trainer.callbacks, evaluate=lambda: figures)
    around.trainer.run(TrainingState())
    assert "step 2 of 2: validation accuracy 0.5000, loss 3.0000" in around.said
    assert around.records[-1]["validation_collapsed_to"] == 1.0


def test_a_tenth_of_the_run_unless_told(scene) -> None:
    around = scene(steps=30, losses=lambda s: 1.0)
    around.trainer.run(TrainingState())
    assert around.evaluated_at == around.saved == list(range(3, 31, 3))
    short = scene(steps=3, losses=lambda s: 1.0)
    short.trainer.run(TrainingState())
    assert short.saved == [1, 2, 3]


def test_no_validation_text_no_evaluation(scene) -> None:
    around = scene(steps=3)
    state = around.trainer.run(TrainingState())
    assert around.evaluated_at == []
    assert state.best_step is None


def test_the_best_is_kept_and_saved_when_asked(scene) -> None:
    losses = [3.0, 2.0, 2.5, 2.0, 1.0]
    around = scene(steps=10, losses=losses, evaluation={"every": 2}, checkpoint={"every": 10, "best": True})
    state = around.trainer.run(TrainingState())
    assert around.saved == [2, 4, 10]
    assert (state.best_step, state.best_value, state.stale) == (10, 1.0, 0)
    assert [(s["best_step"], s["stale"]) for s in around.states] == [(2, 0), (4, 0), (10, 0)]
    plain = scene(steps=10, losses=losses, evaluation={"every": 2}, checkpoint={"every": 10})
    plain.trainer.run(TrainingState())
    assert plain.saved == [10]


def test_patience(scene) -> None:
    losses = [3.0, 2.0, 2.0, 2.5, 2.4]
    around = scene(steps=100, losses=losses, evaluation={"every": 1, "patience": 3}, checkpoint={"every": 50})
    state = around.trainer.run(TrainingState())
    assert (state.step, state.best_step, state.stale) == (5, 2, 3)
    assert around.saved == [5]
    again = scene(steps=100, losses=[9.0], evaluation={"every": 1, "patience": 3})
    again.trainer.run(TrainingState.from_dict(5, around.states[-1]))
    assert again.batches.asked == []  # a run that ended by itself does not go on by itself


@pytest.mark.parametrize("loss", [math.nan, math.inf])
def test_a_loss_that_is_not_finite_ends_the_run(scene, monkeypatch, loss: float) -> None:
    around = scene(steps=10, checkpoint={"every": 1})
    real = type(around.step).__call__

    def step(self, batch, number, lr_multiplier):
        outcome = real(self, batch, number, lr_multiplier)
        return StepOutcome(torch.tensor(loss), outcome.grad_norm) if number == 4 else outcome

    monkeypatch.setattr(type(around.step), "__call__", step)
    with refused(Diverged, "diverged", "step 5", f"loss is {loss}"):
        around.trainer.run(TrainingState())
    assert around.saved == [1, 2, 3, 4]
    assert around.records[-1]["step"] == 5
    assert not math.isfinite(around.records[-1]["loss"])  # recorded as it is


def test_a_gradient_that_is_not_finite_ends_the_run(scene) -> None:
    around = scene(steps=10, checkpoint={"every": 1})
    around.step.loss_module.network.blocks[1].attention.output.weight.register_hook(lambda gradient: gradient * math.inf)
    with refused(Diverged, "diverged", "step 1", "gradient norm is inf"):
        around.trainer.run(TrainingState())
    assert around.saved == []


def test_weights_that_are_not_finite_are_never_saved(scene) -> None:
    """The loss and the gradient of the step are finite; the rate carries the weights away."""
    around = scene(
        steps=10,
        checkpoint={"every": 1},
        training={"lr": 1e38, "optimizer": "sgd", "clip": None, "schedule": "constant"},
        model={"layers": 1},
    )
    around.step.loss_module.network.blocks[0].feedforward.up.weight.register_hook(lambda gradient: gradient * 1e6)
    with refused(Diverged, "diverged", "step 1", "weight"):
        around.trainer.run(TrainingState())
    assert around.saved == []


def test_a_validation_loss_that_is_not_finite_ends_the_run(scene) -> None:
    around = scene(steps=10, losses=[2.0, math.nan], evaluation={"every": 2}, checkpoint={"every": 1})
    with refused(Diverged, "diverged", "step 4", "validation loss is nan"):
        around.trainer.run(TrainingState())
    assert around.saved == [1, 2, 3]
    assert math.isnan(around.records[-1]["validation_loss"])


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("at", [0, 4, 9])
def test_a_stop_finishes_the_step_saves_and_says_so(scene, monkeypatch, number: int, at: int) -> None:
    around = scene(steps=10, losses=lambda s: 1.0, checkpoint={"every": 100}, evaluation={"every": 100})
    batch = around.batches.batch
    monkeypatch.setattr(
        around.batches, "batch", lambda step: (setattr(around.stop, "number", number) if step == at else None) or batch(step)
    )
    with refused(Interrupted, "interrupted", f"step {at + 1}") as caught:
        around.trainer.run(TrainingState())
    assert caught.value.exit_code == 128 + number
    assert around.saved == [at + 1]
    assert [record["step"] for record in around.records] == list(range(1, at + 2))


@pytest.mark.parametrize("last", [False, True])
def test_a_stop_in_an_evaluation_leaves_it_for_later(scene, last: bool) -> None:
    def asked_to_stop(around) -> float:
        around.stop.number = signal.SIGTERM
        raise StopRequested

    settings = {"steps": 4 if last else 8, "evaluation": {"every": 4}, "checkpoint": {"every": 100}}
    around = scene(losses=asked_to_stop, **settings)
    with pytest.raises(Interrupted):
        around.trainer.run(TrainingState())
    assert around.saved == [4]
    assert around.evaluated_at == []
    resumed = scene(losses=lambda s: 2.0, **settings)
    state = resumed.trainer.run(TrainingState.from_dict(4, around.states[-1]))
    assert resumed.evaluated_at == ([4] if last else [4, 8])
    assert state.best_step == 4


def test_a_second_stop_in_the_evaluation_after_resuming(scene) -> None:
    def asked_to_stop(around) -> float:
        around.stop.number = signal.SIGINT
        raise StopRequested

    around = scene(steps=8, losses=asked_to_stop, evaluation={"every": 4})
    with refused(Interrupted, "interrupted", "step 4"):
        around.trainer.run(TrainingState(4))
    assert around.batches.asked == []  # no step was begun


def test_an_evaluation_that_an_earlier_process_recorded_counts(scene) -> None:
    """Stopped in an evaluation, resumed, evaluated, killed before the next checkpoint: the record is there, the state not."""
    around = scene(
        steps=8, losses=[5.0], evaluation={"every": 4}, recorded=lambda step: {"validation_loss": 1.5} if step == 4 else None
    )
    state = around.trainer.run(TrainingState(4))
    assert (state.best_step, state.best_value, state.stale) == (4, 1.5, 1)
    assert around.evaluated_at == [8]


def test_going_on_is_the_same_as_never_having_stopped(scene) -> None:
    settings = {"steps": 6, "model": {"dropout": 0.2}, "training": {"accumulate": 2}}
    unbroken = scene(**settings)
    unbroken.trainer.run(TrainingState())
    first = scene(**settings)
    first.trainer.steps = 6
    batch = first.batches.batch
    first.batches.batch = lambda step: (setattr(first.stop, "number", 15) if step == 2 else None) or batch(step)
    with pytest.raises(Interrupted):
        first.trainer.run(TrainingState())
    second = scene(**settings)
    for own, other in zip(second.step.loss_module.network.parameters(), first.step.loss_module.network.parameters()):
        own.data.copy_(other.data)
    second.step.optimizers.load(first.step.optimizers.tensors())
    second.trainer.run(TrainingState(3))
    assert all(
        torch.equal(a, b)
        for a, b in zip(unbroken.step.loss_module.network.parameters(), second.step.loss_module.network.parameters())
    )
    losses = [record["loss"] for record in unbroken.records]
    assert losses == [record["loss"] for record in (*first.records, *second.records)]


def test_time_is_counted_over_all_processes(scene) -> None:
    around = scene(steps=4, losses=lambda s: 1.0, checkpoint={"every": 1}, evaluation={"every": 1})
    around.trainer.run(TrainingState(2, seconds=1000.0))
    assert 1000.0 < around.states[0]["seconds"] < around.states[-1]["seconds"] < 1100.0
    assert around.records[-1]["seconds"] > 1000.0
    assert around.records[-1]["tokens_per_second"] > 1  # of this process


class NoRoom:
    """A step that has no room for more than some rows at once."""

    def __init__(self, step, most: int, error: BaseException) -> None:
        self.inner, self.most, self.error = step, most, error
        self.runtime, self.optimizers, self.uncaptured = step.runtime, step.optimizers, step.uncaptured
        self.micro_batches: list[int] = []

    accumulate = property(lambda self: self.inner.accumulate, lambda self, n: setattr(self.inner, "accumulate", n))

    def __call__(self, batch, step: int, lr_multiplier: float) -> StepOutcome:
        self.micro_batches.append(self.accumulate)
        if len(batch["ids"]) // self.accumulate > self.most:
            raise self.error
        return self.inner(batch, step, lr_multiplier)


OUT_OF_MEMORY = [
    torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB"),
    RuntimeError("[enforce fail at alloc_cpu.cpp:119] err == 0. DefaultCPUAllocator: can't allocate memory: you tried"),
    MemoryError(),
]


@pytest.mark.parametrize("error", OUT_OF_MEMORY, ids=lambda error: type(error).__name__)
def test_halving_keeps_the_effective_batch(scene, make_step, some_batches, error: BaseException) -> None:
    settings = {"steps": 3, "training": {"batch_size": 8, "out_of_memory": "halve"}}
    roomy, tight = Scene(make_step, some_batches(8), **settings), Scene(make_step, some_batches(8), **settings)
    tight.trainer.step = NoRoom(tight.step, 2, error)
    roomy.trainer.run(TrainingState())
    tight.trainer.run(TrainingState())
    assert tight.trainer.step.micro_batches == [1, 2, 4, 4, 4]
    assert tight.said == [
        "Out of memory: continuing with micro-batches of 4 rows; the effective batch stays the same.",
        "Out of memory: continuing with micro-batches of 2 rows; the effective batch stays the same.",
    ]
    for record, other in zip(roomy.records, tight.records):
        assert record["loss"] == pytest.approx(other["loss"], abs=1e-6)
    for a, b in zip(roomy.step.loss_module.network.parameters(), tight.step.loss_module.network.parameters()):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)


def test_odd_batches_are_cut_by_their_divisors(make_step, some_batches) -> None:
    settings = {"steps": 1, "training": {"batch_size": 9, "out_of_memory": "halve"}}
    around = Scene(make_step, some_batches(9), **settings)
    around.trainer.step = NoRoom(around.step, 1, MemoryError())
    around.trainer.run(TrainingState())
    assert around.trainer.step.micro_batches == [1, 3, 9]


@pytest.mark.parametrize(
    ("training", "words"),
    [
        ({"batch_size": 8}, "--set training.accumulate=2"),
        ({"batch_size": 9}, "--set training.accumulate=3"),
        ({"batch_size": 8, "accumulate": 8}, "with 1 rows at once on cpu. Make training.batch_size, model.context"),
        ({"batch_size": 8, "accumulate": 8, "out_of_memory": "halve"}, "Make training.batch_size, model.context"),
    ],
)
def test_otherwise_a_sentence_with_what_to_change(make_step, some_batches, training, words: str) -> None:
    around = Scene(make_step, some_batches(training["batch_size"]), steps=3, training=training)
    around.trainer.step = NoRoom(around.step, 0, MemoryError())
    with pytest.raises(OutOfMemory) as caught:
        around.trainer.run(TrainingState())
    assert words in str(caught.value)


def test_other_faults_are_not_taken_for_missing_memory(scene) -> None:
    around = scene(steps=3, training={"out_of_memory": "halve"})
    around.trainer.step = NoRoom(around.step, 0, RuntimeError("shapes do not fit"))
    with pytest.raises(RuntimeError, match="shapes do not fit"):
        around.trainer.run(TrainingState())


def test_the_state_there_and_back() -> None:
    state = TrainingState(7, best_step=5, best_value=1.5, stale=2, evaluated_step=7, seconds=3.5)
    assert TrainingState.from_dict(7, {"schema": 1, "step": 7, **state.to_dict()}) == state
