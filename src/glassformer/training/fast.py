"""The same step, faster: on CUDA captured as a graph and replayed, and in long runs compiled. What was chosen is said.

``TrainStep`` is the reference implementation. A CUDA graph removes the time the processor needs to launch its kernels and is
made in a second; compiling fuses the kernels and takes up to half a minute, so short runs do without. Neither changes what a
step depends on, so exact resume holds in every mode; a run never changes from one to another, whose bits differ.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple, final

import torch
from torch import Tensor

from glassformer.data.batches import Batch
from glassformer.foundation.progress import SILENT, Watcher
from glassformer.foundation.stopwatch import Stopwatch
from glassformer.training.config import TrainingConfig
from glassformer.training.step import StepOutcome, TrainStep

CAPTURING_PAYS_FROM = 30
"""Steps from which a CUDA graph (some ten steps' worth of warm-up and copying) is earned back."""

COMPILING_PAYS_FROM = 6e15
"""FLOPs of a whole training from which compiling (20 s on a GPU in a fresh process, 7 s in a second trial; steps a quarter
shorter) is earned back: 6,000 steps of shakespeare-char. Counted, not timed, so that a run chooses the same again when it is
resumed. On a CPU it never pays (0-7 %)."""

WARM_UP_STEPS = 3  # torch asks for a few steps on a side stream before capturing


def accelerate(
    step: TrainStep, config: TrainingConfig, steps: int, watch: Watcher, clock: Stopwatch | None = None
) -> TrainStep | GraphedStep:
    """The fastest form of ``step`` that this machine and recipe allow."""
    on_cuda = step.runtime.device.type == "cuda"
    compiled = config.compile if config.compile != "auto" else on_cuda and _long_enough(step, steps) and _can_compile()
    captured = config.cuda_graph if config.cuda_graph != "auto" else compiled or steps >= CAPTURING_PAYS_FROM
    captured = captured and on_cuda and step.optimizers.capturable
    if compiled:
        compile_loss(step)
        watch.say("compile: kernels are fused" + (", and the whole step is replayed as a CUDA graph." if captured else "."))
    elif captured:
        short = ", for which this run is too short" if config.compile == "auto" else ""
        watch.say(f"compile: the whole step is replayed as a CUDA graph; nothing is compiled{short}.")
    return GraphedStep(step, watch, clock) if captured else step


def training_flops(step: TrainStep, steps: int) -> float:
    """Six for each parameter and token (Kaplan et al. 2020), up to the longest sequences."""
    network = step.loss_module.network
    tokens = steps * step.config.batch_size * network.dims.context
    return 6.0 * tokens * sum(parameter.numel() for parameter in network.parameters())


def _long_enough(step: TrainStep, steps: int) -> bool:
    return training_flops(step, steps) >= COMPILING_PAYS_FROM


def _can_compile() -> bool:
    from torch.utils._triton import has_triton  # it imports the compiler: seconds that a short run does not spend

    return bool(has_triton())


def compile_loss(step: TrainStep) -> None:
    """Fuses the kernels of the forward and backward pass."""
    import torch._inductor.config as inductor

    if hasattr(inductor, "deterministic"):
        inductor.deterministic = True  # kernels are not chosen by timing them, so two runs choose the same
    step.compute_loss, step.compiled = torch.compile(step.compute_loss, dynamic=False), True


class _StepWaits(Exception):
    """The processor has to wait for the GPU in the middle of a step."""


@contextmanager
def _refusing_to_wait() -> Iterator[None]:
    before = torch.cuda.get_sync_debug_mode()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch says that it may miss some; those fail in the capture itself
        torch.cuda.set_sync_debug_mode("error")
    try:
        yield
    except RuntimeError as error:
        if "synchronizing" not in str(error):
            raise
        raise _StepWaits(str(error).partition("\n")[0]) from error
    finally:
        torch.cuda.set_sync_debug_mode(before)


@contextmanager
def _on_a_side_stream() -> Iterator[None]:
    """What follows waits for it, also when it fails: weights are put back after the last kernel that changes them."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    try:
        with torch.cuda.stream(side):
            yield
    finally:
        torch.cuda.current_stream().wait_stream(side)


class _Captured(NamedTuple):
    """A graph, the batch it reads and the outcome it writes."""

    graph: torch.cuda.CUDAGraph
    batch: Batch
    outcome: StepOutcome


@final
class GraphedStep:
    """A step captured as a CUDA graph: one graph for each shape of batch; more micro-batches capture anew.

    A step that makes the processor wait for the GPU (``.item()``, say) cannot be captured; it is then launched as it is.
    """

    def __init__(self, step: TrainStep, watch: Watcher = SILENT, clock: Stopwatch | None = None) -> None:
        self._step, self._watch, self._clock = step, watch, clock or Stopwatch()
        self.runtime, self.optimizers = step.runtime, step.optimizers
        self._graphs: dict[Any, _Captured] = {}
        self._waits = False  # whether the step makes the processor wait
        self.optimizers.make_capturable()

    @property
    def accumulate(self) -> int:
        return self._step.accumulate

    @accumulate.setter
    def accumulate(self, micro_batches: int) -> None:
        self._step.accumulate = micro_batches
        self._graphs.clear()

    def __call__(self, batch: Batch, step: int, lr_multiplier: float) -> StepOutcome:
        captured = None if self._waits else self._graphs.get(batch.shapes)
        if captured is None and not self._waits:
            with self._clock.phase("compile"):
                captured = self._try_to_capture(batch)
        if captured is None:
            return self._step(batch, step, lr_multiplier)
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

    def _try_to_capture(self, batch: Batch) -> _Captured | None:
        try:
            self._graphs[batch.shapes] = self._capture(batch)
        except _StepWaits as error:
            self._waits = True
            self._watch.say(
                f"CUDA graph: the step makes the processor wait ({error}), so it cannot be captured and runs as it is."
            )
        return self._graphs.get(batch.shapes)

    def _capture(self, batch: Batch) -> _Captured:
        """Captures one step on a copy of the batch; weights and optimizer are put back as they were."""
        copy = batch.clone()
        self._step.prepare(0, 0.0)
        with self._as_before():
            with _on_a_side_stream():
                for _ in range(WARM_UP_STEPS - 1):
                    self._step.update(copy)
                with _refusing_to_wait():  # found before the capture, which a refusal would leave half done
                    self._step.update(copy)
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
            self.optimizers.zero_grad()  # of a step that was not finished
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


def uncaptured(step: TrainStep | GraphedStep) -> TrainStep:
    """The step itself, or the one that was captured."""
    return step.uncaptured if isinstance(step, GraphedStep) else step
