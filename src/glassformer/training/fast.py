"""The same step, faster: compiled, and on CUDA captured as a graph and replayed. What was chosen is said.

``TrainStep`` is the reference implementation. Compiling fuses its kernels; a CUDA graph removes the time the processor
needs to launch them. Neither changes what a step depends on, so exact resume holds in every mode.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple, final

import torch
from torch import Tensor
from torch.utils._triton import has_triton

from glassformer.data.batches import Batch
from glassformer.foundation.progress import Watcher
from glassformer.foundation.stopwatch import Stopwatch
from glassformer.training.config import TrainingConfig
from glassformer.training.step import StepOutcome, TrainStep

COMPILING_PAYS_FROM = 400
"""Steps from which compiling (about half a minute on a GPU) is earned back; on a CPU it never is (it gains 0-7 %)."""

WARM_UP_STEPS = 3  # torch asks for a few steps on a side stream before capturing


def accelerate(
    step: TrainStep, config: TrainingConfig, steps: int, watch: Watcher, clock: Stopwatch | None = None
) -> TrainStep | GraphedStep:
    """The fastest form of ``step`` that this machine and recipe allow."""
    on_cuda = step.runtime.device.type == "cuda"
    wanted = config.compile if config.compile != "auto" else on_cuda and steps >= COMPILING_PAYS_FROM and has_triton()
    if not wanted:
        return step
    compile_loss(step)
    if on_cuda and step.optimizers.capturable:
        watch.say("compile: kernels are fused, and the whole step is replayed as a CUDA graph.")
        return GraphedStep(step, clock)
    watch.say("compile: kernels are fused.")
    return step


def compile_loss(step: TrainStep) -> None:
    """Fuses the kernels of the forward and backward pass."""
    import torch._inductor.config as inductor

    if hasattr(inductor, "deterministic"):
        inductor.deterministic = True  # kernels are not chosen by timing them, so two runs choose the same
    step.compute_loss, step.compiled = torch.compile(step.compute_loss, dynamic=False), True


class _Captured(NamedTuple):
    """A graph, the batch it reads and the outcome it writes."""

    graph: torch.cuda.CUDAGraph
    batch: Batch
    outcome: StepOutcome


@final
class GraphedStep:
    """A step captured as a CUDA graph: one graph for each shape of batch; more micro-batches capture anew."""

    def __init__(self, step: TrainStep, clock: Stopwatch | None = None) -> None:
        self._step, self._clock = step, clock or Stopwatch()
        self.runtime, self.optimizers = step.runtime, step.optimizers
        self._graphs: dict[Any, _Captured] = {}
        self.optimizers.make_capturable()

    @property
    def accumulate(self) -> int:
        return self._step.accumulate

    @accumulate.setter
    def accumulate(self, micro_batches: int) -> None:
        self._step.accumulate = micro_batches
        self._graphs.clear()

    def __call__(self, batch: Batch, step: int, lr_multiplier: float) -> StepOutcome:
        captured = self._graphs.get(batch.shapes)
        if captured is None:
            with self._clock.phase("compile"):
                captured = self._graphs[batch.shapes] = self._capture(batch)
        captured.batch.copy_(batch)
        self._step.prepare(step, lr_multiplier)
        captured.graph.replay()
        return StepOutcome(captured.outcome.loss.clone(), captured.outcome.grad_norm.clone())

    @property
    def uncaptured(self) -> TrainStep:
        """The step that was captured."""
        return self._step

    def measure(self, batch: Batch, step: int = 0) -> StepOutcome:
        """The loss and the gradient norm of a step as it is replayed; weights and optimizer are put back; for checks."""
        with self._as_before():
            return self(batch, step, 0.0)

    def _capture(self, batch: Batch) -> _Captured:
        """Captures one step on a copy of the batch; weights and optimizer are put back as they were."""
        copy = batch.clone()
        self._step.prepare(0, 0.0)
        with self._as_before():
            side = torch.cuda.Stream()
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                for _ in range(WARM_UP_STEPS):
                    self._step.update(copy)
            torch.cuda.current_stream().wait_stream(side)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                outcome = self._step.update(copy)
            return _Captured(graph, copy, outcome)

    @contextmanager
    def _as_before(self) -> Iterator[None]:
        """Weights and optimizer are afterwards as they were."""
        weights = {name: parameter.detach().clone() for name, parameter in self._step.loss_module.network.named_parameters()}
        state = {name: tensor.clone() for name, tensor in self.optimizers.tensors().items()}
        try:
            yield
        finally:  # also when the device had no room: the step is then tried with smaller micro-batches from where it stood
            self._put_back(weights, state)

    @torch.no_grad()
    def _put_back(self, weights: Mapping[str, Tensor], state: Mapping[str, Tensor]) -> None:
        for name, parameter in self._step.loss_module.network.named_parameters():
            parameter.copy_(weights[name])
        for name, tensor in self.optimizers.tensors().items():
            if name in state:
                tensor.copy_(state[name])
            else:
                tensor.zero_()  # made by the warm-up: an optimizer's state begins with zeros
