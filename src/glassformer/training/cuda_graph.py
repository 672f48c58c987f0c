"""A step -> the same step as a CUDA graph: tried, captured once for each shape of batch, and replayed.

A graph replays kernels and nothing else, so a step that does more (``.item()``, a draw on the processor) is refused before
it is captured. Weights, buffers and optimizer are afterwards as they were. A step in pieces becomes two graphs: the gradients
of one piece, replayed for each with its own seed, and the update; what other processes add comes between them.
"""

from __future__ import annotations

import functools
import random
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, final

import torch
from torch import Tensor

from glassformer.data.batches import Batch
from glassformer.foundation.errors import GlassformerError
from glassformer.foundation.progress import SILENT, Watcher
from glassformer.foundation.runtime import is_out_of_memory
from glassformer.foundation.stopwatch import Stopwatch
from glassformer.training.parallel.tree import PairwiseSum
from glassformer.training.step import StepOutcome, TrainStep

WARM_UP_STEPS = 2  # torch asks for a few steps on a side stream before capturing


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
        raise _NotForAGraph("it makes the CPU wait for the GPU") from error
    finally:
        torch.cuda.set_sync_debug_mode(before)
    if _generators() != drawn:
        raise _NotForAGraph("it draws random numbers on the CPU")


def _generators() -> tuple[object, ...]:
    """Where the processor's generators stand."""
    numpy = sys.modules.get("numpy")
    state = () if numpy is None else numpy.random.get_state()
    return random.getstate(), bytes(torch.get_rng_state()), str(state)


def _side_stream() -> torch.cuda.Stream:
    return _stream_of(torch.cuda.current_device())


@functools.cache
def _stream_of(device: int) -> torch.cuda.Stream:
    """A stream beside the current one, the same for everything that is captured: torch keeps workspaces for matrix products
    for each stream (32 MiB, and 32 more for the backward pass)."""
    return torch.cuda.Stream(device)


@contextmanager
def _on_a_side_stream() -> Iterator[None]:
    """What follows waits for it, also when it fails: weights are put back after the last kernel that changes them."""
    side = _side_stream()
    side.wait_stream(torch.cuda.current_stream())
    try:
        with torch.cuda.stream(side):
            yield
    finally:
        torch.cuda.current_stream().wait_stream(side)


class _Recording(NamedTuple):
    """A graph, and the tensors it writes."""

    graph: torch.cuda.CUDAGraph
    written: Any


@final
class _CapturedWhole:
    """A whole step as one graph, the batch it reads and the outcome it writes."""

    def __init__(self, step: TrainStep, batch: Batch, recording: _Recording) -> None:
        self._batch, self._graph, self._outcome = batch, recording.graph, recording.written

    def replay(self, batch: Batch) -> StepOutcome:
        self._batch.copy_(batch)
        self._graph.replay()
        return self._outcome.clone()


@final
class _CapturedPieces:
    """A step in pieces as two graphs: the gradients of one piece, and what is done with the sum of all."""

    def __init__(
        self, step: TrainStep, piece: Batch, targets: Tensor, gradients: _Recording, flat: Tensor, update: _Recording
    ) -> None:
        self._step, self._piece, self._targets, self._flat = step, piece, targets, flat
        self._gradients, self._update = gradients, update

    def replay(self, batch: Batch) -> StepOutcome:
        step, pieces, total = self._step, self._step.cut(batch), PairwiseSum()
        self._targets.copy_(step.loss_module.count(batch))
        for piece in step.processes.share(len(pieces)):
            step.seed_piece(piece)
            self._piece.copy_(pieces[piece])
            self._gradients.graph.replay()
            total.add(self._gradients.written.clone())
        self._flat.copy_(step.processes.sum(total.total))
        self._update.graph.replay()
        outcome: StepOutcome = self._update.written
        return outcome.clone()


@final
class GraphedStep:
    """A step captured as a CUDA graph: one graph for each shape of batch; more micro-batches capture anew.

    Shapes with which the step does more than launch kernels (``.item()``, a draw on the processor) cannot be captured: they
    run as they are, by the same kernels. Which ones depends on the step alone, so a resumed run does the same.
    """

    def __init__(self, step: TrainStep, watch: Watcher = SILENT, clock: Stopwatch | None = None) -> None:
        self._step, self._watch, self._clock = step, watch, clock or Stopwatch()
        self.runtime, self.optimizers = step.runtime, step.optimizers
        self._graphs: dict[Any, _CapturedWhole | _CapturedPieces] = {}
        self._refused: dict[Any, str] = {}  # shapes that run as they are, and why
        self._pool: Any = None  # graphs share their memory: one runs at a time, and what it gives is copied at once
        self._undo = self.optimizers.make_capturable()
        self.peak_bytes = 0
        """The most that a captured step stores at once. A replay allocates nothing, so it is known from the capture alone."""
        self._copied = 0

    @property
    def accumulate(self) -> int:
        return self._step.accumulate

    @accumulate.setter
    def accumulate(self, micro_batches: int) -> None:
        self._step.accumulate = micro_batches
        self._graphs.clear()
        self._refused.clear()
        self._pool = None

    def __call__(self, batch: Batch, step: int, lr_multiplier: float) -> StepOutcome:
        if batch.shapes not in self._graphs and batch.shapes not in self._refused:
            with self._clock.phase("compile"):
                why_not = self.capture(batch)
            if why_not is not None and len(self._refused) == 1:
                self._watch.say(f"CUDA graph: this step cannot be captured and runs without one, because {why_not}.")
        captured = self._graphs.get(batch.shapes)
        if captured is None:
            return self._step(batch, step, lr_multiplier)
        self._step.prepare(step, lr_multiplier)
        return captured.replay(batch)

    @property
    def uncaptured(self) -> TrainStep:
        """The step that was captured."""
        return self._step

    def replays(self, batch: Batch) -> bool:
        """Whether a batch of this shape is replayed; otherwise the step runs as it is."""
        return batch.shapes in self._graphs

    def capture(self, batch: Batch) -> str | None:
        """Captures the step for batches of this shape. Gives the reason where it cannot be captured."""
        try:
            self._graphs[batch.shapes] = self._capture(batch)
        except _NotForAGraph as error:
            self._refused[batch.shapes] = str(error)
        return self._refused.get(batch.shapes)

    def given_up(self) -> TrainStep:
        """The step that was to be captured, with its optimizers as they were before: bit for bit what it gives alone."""
        self._undo()
        return self._step

    def measure(self, batch: Batch, step: int = 0) -> StepOutcome:
        """The loss and the gradient norm of a step as it is replayed, without other processes; weights and optimizer are put
        back; for checks."""
        with self._as_before(), self._step.by_itself():
            return self(batch, step, 0.0)

    def _capture(self, batch: Batch) -> _CapturedWhole | _CapturedPieces:
        """Captures one step on a copy of the batch; weights and optimizer are put back as they were. Asks no other process."""
        self._step.prepare(0, 0.0)
        with self._as_before():
            if self._step.pieces is None:
                copy = batch.clone()
                return _CapturedWhole(self._step, copy, self._made(lambda: self._step.update(copy)))
            step, piece, targets = self._step, self._step.cut(batch)[0].clone(), self._step.loss_module.count(batch).clone()
            step.seed_piece(0)
            gradients = self._made(lambda: step.flat_gradients(piece, targets))
            flat = gradients.written.clone()
            update = self._made(lambda: step.apply(step.take(flat)))
            return _CapturedPieces(step, piece, targets, gradients, flat, update)

    def _made(self, work: Callable[[], Any]) -> _Recording:
        """``work`` as a graph, after it was tried."""
        work()  # what a first call makes is there from now on
        # Before the capture, which a refusal would leave half done; and not on a side stream: what is left of a step that
        # was broken off there (its AccumulateGrad nodes) would make later steps wait for that stream, and torch warn of it.
        with _only_kernels():
            work()
        with _on_a_side_stream():
            for _ in range(WARM_UP_STEPS):
                work()
        return self._recorded(work)

    def _recorded(self, work: Callable[[], Any]) -> _Recording:
        graph = torch.cuda.CUDAGraph()
        torch.cuda.reset_peak_memory_stats()
        try:
            with torch.cuda.graph(graph, pool=self._pool, stream=_side_stream()):
                written = work()
        except RuntimeError as error:
            if is_out_of_memory(error):
                raise
            why = str(error).partition("\n")[0]
            raise GlassformerError(
                f"The step cannot be captured as a CUDA graph ({why}); continue without it: --set training.cuda_graph=false.",
                reason="cannot-capture",
            ) from error
        self._pool = graph.pool()
        self.peak_bytes = max(self.peak_bytes, torch.cuda.max_memory_allocated() - self._copied)
        return _Recording(graph, written)

    @contextmanager
    def _as_before(self) -> Iterator[None]:
        """Weights, buffers and optimizer are afterwards as they were."""

        def numbers() -> Iterator[tuple[str, Tensor]]:
            network = self._step.loss_module.network
            yield from network.named_parameters()
            yield from network.named_buffers()

        weights = {name: tensor.detach().clone() for name, tensor in numbers()}
        state = {name: tensor.clone() for name, tensor in self.optimizers.tensors().items()}
        self._copied = sum(tensor.nbytes for tensor in (*weights.values(), *state.values()))
        try:
            yield
        finally:  # also when the device had no room: the step is then tried with smaller micro-batches from where it stood
            self.optimizers.zero_grad()  # of a step that was not finished
            with torch.no_grad():
                for name, tensor in numbers():
                    tensor.copy_(weights[name])
                for name, tensor in self.optimizers.tensors().items():
                    if name in state:
                        tensor.copy_(state[name])
                    else:
                        tensor.zero_()  # made by the warm-up: an optimizer's state begins with zeros
