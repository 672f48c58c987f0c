"""Batches and a model -> a trained model, step by step; evaluates, records, saves and stops when it should.

Takes everything from above as arguments: how to evaluate, where records go, how to save. What happens at step n depends
only on the weights, the optimizer's state and (seed, n), so a run that was killed goes on as if nothing had happened.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, final

import torch

from glassformer.data.batches import BatchesByStep
from glassformer.foundation.errors import Diverged, Interrupted, OutOfMemory
from glassformer.foundation.metrics import COLLAPSED_TO, LOSS, SOURCE_GAIN, TRAIN, VALIDATION, Metric
from glassformer.foundation.progress import SILENT, Watcher, duration
from glassformer.foundation.runtime import is_out_of_memory
from glassformer.foundation.stopwatch import Stopwatch
from glassformer.training.config import CheckpointConfig, EvaluationConfig
from glassformer.training.cuda_graph import GraphedStep
from glassformer.training.parallel.shard import whole
from glassformer.training.peak_memory import measured, measured_steps, watched_steps
from glassformer.training.signals import StopRequested, StopSignal
from glassformer.training.step import StepOutcome, TrainStep


@dataclass
class TrainingState:
    """What a checkpoint keeps beside weights and optimizer."""

    step: int = 0
    best_step: int | None = None
    best_value: float | None = None
    """Of the metric that chooses the best checkpoint."""
    best_by: str | None = None
    """The name of that metric."""
    stale: int = 0
    """Evaluations since the best one."""
    evaluated_step: int | None = None
    """The last step whose evaluation is part of the figures above."""
    seconds: float = 0.0
    """Time spent so far, in all the processes that worked on the run."""
    tokens: int = 0
    """Of all batches so far, as they were drawn."""
    peak_bytes: int = 0
    """The most that a measured step stored at once; 0: not known."""
    token_flops: list[float] = field(default_factory=list)
    """FLOPs per token of the measured steps so far."""
    moved: int = 0
    """Watched steps in which something but the optimizer changed the weights."""

    def to_dict(self) -> dict[str, Any]:
        return {key: value for key, value in vars(self).items() if key != "step"}

    @classmethod
    def from_dict(cls, step: int, values: Mapping[str, Any]) -> TrainingState:
        """The inverse of ``to_dict``; ignores other keys of a checkpoint."""
        return cls(step, **{key: values[key] for key in cls().to_dict() if key in values})


@dataclass(frozen=True)
class Callbacks:
    """What the trainer calls in the layers above it: evaluation, records, checkpoints, progress."""

    evaluate: Callable[[], dict[str, float]] | None
    """Validation figures of the model as it stands, by their names in records; None: none are wanted, or there is no part."""
    record: Callable[[dict[str, Any]], None]
    save: Callable[[TrainingState], None]
    evaluated: Callable[[int], None] = lambda step: None
    """Called after the figures of an evaluation were printed."""
    recorded: Callable[[int], Mapping[str, Any] | None] = lambda step: None
    """The figures that an earlier process recorded for a step, if it did."""
    film: Callable[[int], None] = lambda step: None
    """Keeps the weights alone, at the steps of ``Trainer.film_steps``."""
    metric: Metric = LOSS
    """The metric whose validation value chooses the best checkpoint."""
    watch: Watcher = field(default=SILENT)
    clock: Stopwatch = field(default_factory=Stopwatch)
    """Counts what the seconds are spent on."""


@final
class Trainer:
    """The loop."""

    def __init__(
        self,
        step: TrainStep | GraphedStep,
        batches: BatchesByStep,
        *,
        steps: int,
        evaluation: EvaluationConfig,
        checkpoint: CheckpointConfig,
        callbacks: Callbacks,
        stop: StopSignal,
        film_steps: Collection[int] = (),
        measure: bool = False,
    ) -> None:
        """``measure``: memory and FLOPs of a few steps are counted while they are taken, and recorded; also whether the weights
        of a few others are changed by anything but the optimizer."""
        self.film_steps = frozenset(film_steps)
        self.step, self.batches, self.steps, self.callbacks, self.stop = step, batches, steps, callbacks, stop
        self.training, self.evaluation, self.checkpoint = step.uncaptured.config, evaluation, checkpoint
        self.processes = step.uncaptured.processes
        self.evaluate_every = evaluation.every or max(1, steps // 10)
        self.save_every = checkpoint.every or max(1, steps // 10)
        # On a GPU, reading a loss makes the processor wait, so losses are read together now and then.
        self.fetch_every = self.training.log_every if step.runtime.device.type == "cuda" else 1
        # So do several processes when they ask each other whether one of them was told to stop.
        self._agree_every = self.fetch_every if self.processes.place.world > 1 else 1
        self._stopped_by: int | None = None  # the signal on which all processes stop
        self._pending: list[tuple[int, StepOutcome, float]] = []
        self._phase = "compile" if isinstance(step, TrainStep) and step.compiled else "first step"
        self._seconds_before, self._tokens, self._taken, self._last_batch = 0.0, 0, 0, 0
        self._measured = measured_steps(steps) if measure else frozenset()
        plain = isinstance(step, TrainStep) and step.shards is None
        self._watched = watched_steps(steps) - self._measured if measure and plain else frozenset()
        self._saved = False  # whether there is a checkpoint

    def run(self, state: TrainingState) -> TrainingState:
        """Goes on from ``state`` to the last step, or to an early stop. Raises ``Interrupted`` or ``Diverged``."""
        self._started, self._seconds_before, self._saved = time.perf_counter(), state.seconds, state.step > 0
        if state.best_by not in (None, self.callbacks.metric.name):  # values of two metrics do not compare
            state.best_step = state.best_value = state.best_by = None
            state.stale = 0
        if state.step and self._evaluation_due(state.step) and state.evaluated_step != state.step:
            self._evaluate(state)  # the run was stopped in the middle of this evaluation
            self._look_for_a_stop()
            self._raise_if_stopped(state)
        self._save_for_film(state.step)
        while state.step < self.steps and not self._out_of_patience(state):
            with self.callbacks.clock.phase(self._phase), self.processes.paced("step"):
                outcome, lr_multiplier = self._take_step(state)
            self._phase = "steps"
            state.step += 1
            state.tokens += self._last_batch
            self._pending.append((state.step, outcome, lr_multiplier))
            if state.step % self.fetch_every == 0 or state.step == self.steps:
                with self.callbacks.clock.phase(self._phase):  # on a GPU, here it waits for the steps
                    self._fetch()
            self._save_for_film(state.step)
            improved = self._evaluation_due(state.step) and self._evaluate(state)
            last = state.step == self.steps or self._out_of_patience(state)
            if last or state.step % self._agree_every == 0:
                self._look_for_a_stop()
            stopped = self._stopped_by is not None
            if last and self.callbacks.evaluate is None:
                self._fetch()
                self.callbacks.record({"step": state.step, **self._spent(state)})
            if last or state.step % self.save_every == 0 or (improved and self.checkpoint.best) or stopped:
                self._save(state)
            self._raise_if_stopped(state)
        return state

    def _save_for_film(self, step: int) -> None:
        if step in self.film_steps:
            self._fetch()  # a loss that is not finite ends the run here, before its weights are saved
            self.callbacks.film(step)

    def _take_step(self, state: TrainingState) -> tuple[StepOutcome, float]:
        step = state.step
        lr_multiplier = self.training.schedule.lr_multiplier(step, self.steps)
        batch = self.batches.batch(step).to(self.step.runtime.device)
        self._last_batch = batch.numel
        self._tokens += batch.numel
        self._taken += 1
        while True:
            try:
                if step in self._watched and isinstance(self.step, TrainStep):
                    outcome, moved = self.step.watched(batch, step, lr_multiplier)
                    state.moved += moved
                    return outcome, lr_multiplier
                if step not in self._measured:
                    return self.step(batch, step, lr_multiplier), lr_multiplier
                with measured(self.step, batch) as taken:
                    outcome = self.step(batch, step, lr_multiplier)
                state.peak_bytes = max(state.peak_bytes, taken.peak_bytes or 0)
                state.token_flops += [taken.flops / max(1, batch.numel)] if taken.flops else []
                return outcome, lr_multiplier
            except (torch.OutOfMemoryError, RuntimeError, MemoryError) as error:
                if not is_out_of_memory(error):
                    raise
                self._cut_micro_batches(error)

    def _cut_micro_batches(self, error: BaseException) -> None:
        """Makes micro-batches smaller if the recipe says so and that is possible; otherwise raises with what to change."""
        batch_size, micro_batches = self.training.batch_size, self.step.accumulate
        rows = batch_size // micro_batches
        more = next((n for n in range(2 * micro_batches, batch_size + 1) if batch_size % n == 0), None)
        if self.training.out_of_memory != "halve" or more is None:
            cut = (
                f"Cut the batch into more micro-batches with --set training.accumulate={more} (less memory), let "
                "it happen by itself with --set training.out_of_memory=halve, or make"
            )
            raise OutOfMemory(
                f"Out of memory with {rows} rows at once on {self.step.runtime.device}. {cut if more else 'Make'} "
                "training.batch_size, model.context or model.width smaller.",
                reason="out-of-memory",
            ) from error
        self.step.optimizers.zero_grad()
        self.step.accumulate = more
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
        left = batch_size // more
        self.callbacks.watch.say(
            f"Out of memory: continuing with micro-batches of {left} rows; the effective batch stays the same."
        )

    def _fetch(self) -> None:
        """Reads the losses that are still on the device, records them, and ends the run if one is not finite."""
        for step, outcome, lr_multiplier in self._pending:
            with self.processes.reading():
                loss, grad_norm = float(outcome.loss), float(outcome.grad_norm)
            own: dict[str, float] = {}
            if outcome.own is not None:
                names = self.step.uncaptured.loss_module.own_losses
                own = {f"own.{name}": value for name, value in zip(names, outcome.own.tolist())}
            rate = self.training.lr * lr_multiplier
            self.callbacks.record({"step": step, "loss": loss, "grad_norm": grad_norm, "lr": rate, **own})
            if not math.isfinite(loss) or not math.isfinite(grad_norm):
                self._pending = []
                raise self._diverged(step, f"loss is {loss}" if not math.isfinite(loss) else f"gradient norm is {grad_norm}")
        if self._pending:
            step, outcome, _ = self._pending[-1]
            facts = {"loss": float(outcome.loss), "tokens/s": self._tokens_per_second()}
            self.callbacks.watch.progress("training", step, self.steps, facts)
        self._pending = []

    def _diverged(self, step: int, what: str) -> Diverged:
        saved = "The last good checkpoint stays" if self._saved else "There is no checkpoint yet"
        return Diverged(
            f"Diverged at step {step}: the {what}. {saved}; "
            f"try a smaller training.lr (it is {self.training.lr:g}), a longer warm-up, or training.clip.",
            reason="diverged",
        )

    def _save(self, state: TrainingState) -> None:
        """Saves the state, unless the last step, finite itself, led to weights that are not: that is no checkpoint to keep."""
        self._fetch()
        for name, parameter in self.step.optimizers.parameters.items():
            if not torch.isfinite(whole(parameter.detach())).all():
                raise self._diverged(state.step, f"weight {name} is not finite any more")
        state.seconds = self._seconds()
        with self.callbacks.clock.phase("saving"):
            self.callbacks.save(state)
        self._saved = True

    def _seconds(self) -> float:
        return self._seconds_before + time.perf_counter() - self._started

    def _tokens_per_second(self) -> float:
        return self._tokens / max(1e-9, time.perf_counter() - self._started)

    def _spent(self, state: TrainingState) -> dict[str, float]:
        """What the run took so far, for its records."""
        rate = self._tokens_per_second()
        return {"seconds": self._seconds(), "tokens_per_second": rate, "tokens": state.tokens, **_measures(state)}

    def _evaluation_due(self, step: int) -> bool:
        return self.callbacks.evaluate is not None and (step % self.evaluate_every == 0 or step == self.steps)

    def _evaluate(self, state: TrainingState) -> bool:
        """Records the validation figures; True when they are the best so far. Left unfinished when a stop is requested."""
        assert self.callbacks.evaluate is not None
        self._fetch()
        figures = self.callbacks.recorded(state.step)
        if figures is None:
            try:
                with self.callbacks.clock.phase("evaluations"):
                    figures = self.callbacks.evaluate()
            except StopRequested:  # all processes left the evaluation at the same batch
                self._stopped_by = self.stop.number
                return False
            self.callbacks.record({"step": state.step, **figures, **self._spent(state)})
            self._say_figures(state.step, figures)
            self.callbacks.evaluated(state.step)
        metric = self.callbacks.metric
        value = figures[metric.recorded]
        if not math.isfinite(value):
            raise self._diverged(state.step, f"validation {metric.name} is {value}")
        state.evaluated_step = state.step
        improved = state.best_value is None or metric.better(value - state.best_value)
        if improved:
            state.best_step, state.best_value, state.best_by, state.stale = state.step, value, metric.name, 0
        else:
            state.stale += 1
        return improved

    def _say_figures(self, step: int, figures: Mapping[str, float]) -> None:
        """``step 500 of 5,000: validation loss 2.1034; 3 min left``: what a log is read for."""
        shown = _named(figures, VALIDATION)
        if any(name.startswith(TRAIN) for name in figures):
            shown += f"; train {_named(figures, TRAIN)}"
        left = (time.perf_counter() - self._started) / max(1, self._taken) * (self.steps - step)
        rest = f"; {duration(left)} left" if step < self.steps and self._taken else ""
        self.callbacks.watch.say(f"step {step:,} of {self.steps:,}: validation {shown}{rest}")

    def _out_of_patience(self, state: TrainingState) -> bool:
        return self.evaluation.patience is not None and state.stale >= self.evaluation.patience

    def _look_for_a_stop(self) -> None:
        """A signal to one process stops all of them, at the same step."""
        if self._stopped_by is None:
            self._stopped_by = self.processes.largest(self.stop.number or 0) or None

    def _raise_if_stopped(self, state: TrainingState) -> None:
        if self._stopped_by is not None:
            raise Interrupted(
                f"Stopped by a signal after step {state.step}, which is saved; go on with --resume.",
                signal_number=self._stopped_by,
            )


def _measures(state: TrainingState) -> dict[str, float]:
    """What the measured steps took, as far as it is known."""
    memory = {"peak_bytes": state.peak_bytes} if state.peak_bytes else {}
    first, *later = state.token_flops or [0.0]
    moved = {"moved": state.moved} if state.moved else {}
    return memory | moved | ({"flops_growth": sum(later) / len(later) / first} if later else {})


def _named(figures: Mapping[str, float], prefix: str) -> str:
    """The figures whose names begin so: ``accuracy 0.8120, loss 0.4310``. Without what only the diagnosis reads."""
    found = {name.removeprefix(prefix): value for name, value in figures.items() if name.startswith(prefix)}
    return ", ".join(f"{name} {value:.4f}" for name, value in found.items() if name not in (COLLAPSED_TO, SOURCE_GAIN))
