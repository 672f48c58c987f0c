"""The same step, faster: on CUDA captured as a graph and replayed, and in long runs compiled. What was chosen is said.

``TrainStep`` is the reference implementation. A CUDA graph removes the time the processor needs to launch its kernels and is
made in a second; compiling fuses the kernels and takes up to half a minute, so short runs do without. Neither changes what a
step depends on, so exact resume holds in every mode; a run never changes from one to another, whose bits differ.
"""

from __future__ import annotations

import random
import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple, final

import torch
from torch import Tensor

from glassformer.data.batches import Batch
from glassformer.foundation.errors import GlassformerError
from glassformer.foundation.progress import SILENT, Watcher
from glassformer.foundation.runtime import is_out_of_memory
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


class StepForm(NamedTuple):
    """How the steps of a run are computed."""

    compiled: bool
    captured: bool


def choose_form(
    step: TrainStep, config: TrainingConfig, steps: int, watch: Watcher, before: Mapping[str, bool] | None = None
) -> StepForm:
    """The fastest form of ``step`` that this machine and recipe allow, said. ``before``: of a run that goes on, which stays as
    it was begun: the bits of another form are others."""
    on_cuda, capturable = step.runtime.device.type == "cuda", step.optimizers.capturable
    compiled, captured, why = config.compile, config.cuda_graph, ""
    if compiled == "auto":
        compiled, why = (before["compiled"], "") if before else _compiling_pays(step, steps)
    if captured == "auto":
        captured = before["captured"] if before else compiled or steps >= CAPTURING_PAYS_FROM
        captured = captured and on_cuda and capturable
    elif captured and not (on_cuda and capturable):
        lacks = "this optimizer cannot be captured" if on_cuda else "there is no CUDA device"
        watch.say(f"training.cuda_graph=true has no effect: {lacks}.")
        captured = False
    form = StepForm(compiled, captured)
    if form.compiled:
        watch.say("compile: kernels are fused" + (", and the whole step is replayed as a CUDA graph." if captured else "."))
    elif form.captured:
        watch.say(f"compile: the whole step is replayed as a CUDA graph; nothing is compiled{why}.")
    return form


def accelerate(
    step: TrainStep, form: StepForm, watch: Watcher = SILENT, clock: Stopwatch | None = None
) -> TrainStep | GraphedStep:
    """``step`` in that form."""
    if form.compiled:
        compile_loss(step)
    return GraphedStep(step, watch, clock) if form.captured else step


def form_of(step: TrainStep | GraphedStep) -> StepForm:
    return StepForm(uncaptured(step).compiled, isinstance(step, GraphedStep))


def training_flops(step: TrainStep, steps: int) -> float:
    """Six for each parameter and token (Kaplan et al. 2020), up to the longest sequences."""
    network = step.loss_module.network
    tokens = steps * step.config.batch_size * network.dims.context
    return 6.0 * tokens * sum(parameter.numel() for parameter in network.parameters())


def _compiling_pays(step: TrainStep, steps: int) -> tuple[bool, str]:
    """Whether it does, and why not."""
    if step.runtime.device.type != "cuda":
        return False, ""
    if training_flops(step, steps) < COMPILING_PAYS_FROM:
        return False, ", for which this run is too short"
    return (True, "") if _can_compile() else (False, " (torch's compiler for CUDA needs Triton, which is not installed)")


def _can_compile() -> bool:
    from torch.utils._triton import has_triton  # it imports the compiler: seconds that a short run does not spend

    return bool(has_triton())


def compile_loss(step: TrainStep) -> None:
    """Fuses the kernels of the forward and backward pass."""
    import torch._inductor.config as inductor

    if hasattr(inductor, "deterministic"):
        inductor.deterministic = True  # kernels are not chosen by timing them, so two runs choose the same
    step.compute_loss, step.compiled = torch.compile(step.compute_loss, dynamic=False), True


class _NotForAGraph(Exception):
    """A step does something that a CUDA graph would not do again: a graph replays kernels, nothing else."""


@contextmanager
def _only_kernels() -> Iterator[None]:
    """Refuses a step that makes the processor wait for the GPU, or that draws random numbers on the processor."""
    drawn, before = _generators(), torch.cuda.get_sync_debug_mode()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch says that it may miss some; those fail in the capture itself
        torch.cuda.set_sync_debug_mode("error")
    try:
        yield
    except RuntimeError as error:
        if "synchronizing" not in str(error):
            raise
        raise _NotForAGraph("it makes the processor wait for the GPU") from error
    finally:
        torch.cuda.set_sync_debug_mode(before)
    if _generators() != drawn:
        raise _NotForAGraph("it draws random numbers on the processor")


def _generators() -> tuple[object, ...]:
    """Where the processor's generators stand."""
    numpy = sys.modules.get("numpy")
    state = () if numpy is None else numpy.random.get_state()
    return random.getstate(), bytes(torch.get_rng_state()), str(state)


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

    A step that does more than launch kernels (``.item()``, a draw on the processor) cannot be captured and is run as it is.
    """

    def __init__(self, step: TrainStep, watch: Watcher = SILENT, clock: Stopwatch | None = None) -> None:
        self._step, self._watch, self._clock = step, watch, clock or Stopwatch()
        self.runtime, self.optimizers = step.runtime, step.optimizers
        self._graphs: dict[Any, _Captured] = {}
        self._as_it_is = False  # whether the step cannot be captured
        self._pool: Any = None  # graphs share their memory: one runs at a time, and what it gives is copied at once
        self.optimizers.make_capturable()

    @property
    def accumulate(self) -> int:
        return self._step.accumulate

    @accumulate.setter
    def accumulate(self, micro_batches: int) -> None:
        self._step.accumulate = micro_batches
        self._graphs.clear()
        self._pool = None

    def __call__(self, batch: Batch, step: int, lr_multiplier: float) -> StepOutcome:
        captured = None if self._as_it_is else self._graphs.get(batch.shapes)
        if captured is None and not self._as_it_is:
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

    @property
    def replays(self) -> bool:
        """Whether graphs are replayed; otherwise the step runs as it is."""
        return bool(self._graphs) and not self._as_it_is

    def measure(self, batch: Batch, step: int = 0) -> StepOutcome:
        """The loss and the gradient norm of a step as it is replayed; weights and optimizer are put back; for checks."""
        with self._as_before():
            return self(batch, step, 0.0)

    def _try_to_capture(self, batch: Batch) -> _Captured | None:
        try:
            self._graphs[batch.shapes] = self._capture(batch)
        except _NotForAGraph as error:
            self._as_it_is = True
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
                with _only_kernels():  # found before the capture, which a refusal would leave half done
                    self._step.update(copy)
            return self._recorded(copy)

    def _recorded(self, copy: Batch) -> _Captured:
        graph = torch.cuda.CUDAGraph()
        try:
            with torch.cuda.graph(graph, pool=self._pool):
                outcome = self._step.update(copy)
        except RuntimeError as error:
            if is_out_of_memory(error):
                raise
            reason = str(error).partition("\n")[0]
            remedy = "go on without: --set training.cuda_graph=false"
            raise GlassformerError(f"The step cannot be captured as a CUDA graph ({reason}); {remedy}.") from error
        self._pool = graph.pool()
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
