"""The same step, faster: on CUDA captured as a graph and replayed, and in long runs compiled. What was chosen is printed.

``TrainStep`` is the reference implementation. A CUDA graph removes the time the processor needs to launch its kernels and is
made in a second; compiling fuses the kernels and takes up to half a minute, so short runs do without. Neither changes what a
step depends on, so exact resume holds in every mode. A run keeps the mode it began with, because the modes differ in rounding.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import torch

from glassformer.data.batches import Batch
from glassformer.foundation.progress import SILENT, Watcher
from glassformer.foundation.runtime import is_out_of_memory
from glassformer.foundation.stopwatch import Stopwatch
from glassformer.training.cuda_graph import GraphedStep
from glassformer.training.step import TrainStep

CAPTURING_PAYS_FROM = 30
"""Steps from which a CUDA graph (some ten steps' worth of warm-up and copying) is earned back."""

COMPILING_PAYS_FROM = 6e15
"""FLOPs of a whole training from which compiling (20 s on a GPU in a fresh process, 7 s in a second trial; steps a quarter
shorter) is earned back: 6,000 steps of shakespeare-char. Counted, not timed, so that a run chooses the same again when it is
resumed. On a CPU it never pays (0-7 %)."""

COMPILING_IN_A_STUDY_PAYS_FROM = 1e15
"""FLOPs of one run from which compiling pays inside a study that computes ``COMPILING_PAYS_FROM`` on this GPU: one process
compiles (7 s of the processor) while the others use the GPU. Calculated from these times, not measured as a study."""


class StepForm(NamedTuple):
    """How the steps of a run are computed."""

    compiled: bool
    captured: bool


def form_of(step: TrainStep | GraphedStep) -> StepForm:
    return StepForm(step.uncaptured.compiled, isinstance(step, GraphedStep))


def fastest_form(
    step: TrainStep,
    steps: int,
    batch: Callable[[], Batch],
    *,
    before: Mapping[str, bool] | None = None,
    planned_flops: float = 0.0,
    watch: Watcher = SILENT,
    clock: Stopwatch | None = None,
) -> TrainStep | GraphedStep:
    """``step`` in the fastest form that this machine and a run of so many steps allow; says which.

    The capture is tried on a batch of the run; where it is refused the plain step is given. ``before``: the form that a resumed
    run began with. If that was captured, its optimizer was made for capturing and stays so. ``planned_flops``: of all the runs
    of a study on this GPU. They compile at the same time, and later ones find the kernels in the cache, so compiling can pay
    for a study of runs that are too short for it alone. Where one of a run's processes cannot capture, none does.
    """
    form, because = choose_form(step, steps, before, planned_flops, watch)
    fast, why_not = accelerate(step, form, watch, clock), None
    if isinstance(fast, GraphedStep):
        try:
            why_not = fast.capture(batch().to(fast.runtime.device))
        except (torch.OutOfMemoryError, RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):  # without room for this batch, training cuts it into smaller ones
                raise
        if why_not is None and step.processes.largest(0):
            why_not = "another process cannot capture it"
        elif why_not is not None:
            step.processes.largest(1)
        if why_not is not None and not (before and before["captured"]):
            fast = fast.given_up()
    runs = "kernels are fused" if form.compiled else f"nothing is compiled{because}"
    if why_not is not None:
        watch.say(f"compile: {runs}; the step is not replayed as a CUDA graph, because {why_not}.")
    elif form.compiled:
        watch.say(f"compile: {runs}{', and the whole step is replayed as a CUDA graph' if form.captured else ''}.")
    elif form.captured:
        watch.say(f"compile: the whole step is replayed as a CUDA graph; {runs}.")
    return fast


def choose_form(
    step: TrainStep, steps: int, before: Mapping[str, bool] | None, planned_flops: float, watch: Watcher
) -> tuple[StepForm, str]:
    """The fastest form of ``step`` that this machine and recipe allow; and, where `compile` is auto and is not used, why.

    A resumed run keeps the form it began with (``before``), because other forms round differently.
    """
    if step.shards is not None:  # it gathers weights as it goes
        return StepForm(False, False), ""
    compiled, captured, because = step.config.compile, step.config.cuda_graph, ""
    if compiled == "auto" and before:
        compiled = before["compiled"]
    elif compiled == "auto":
        compiled, because = _should_compile(step, steps, planned_flops)
    on_cuda, capturable = step.runtime.device.type == "cuda", step.optimizers.capturable
    if captured == "auto":
        captured = before["captured"] if before else compiled or steps >= CAPTURING_PAYS_FROM
        captured = captured and on_cuda and capturable
    elif captured and not (on_cuda and capturable):
        lacks = "this optimizer cannot be captured" if on_cuda else "there is no CUDA device"
        watch.say(f"training.cuda_graph=true has no effect: {lacks}.")
        captured = False
    return StepForm(compiled, captured), because


def _should_compile(step: TrainStep, steps: int, planned_flops: float) -> tuple[bool, str]:
    """Whether compiling pays, and why not."""
    if step.runtime.device.type != "cuda":
        return False, ""
    if not compiling_pays(training_flops(step, steps), planned_flops):
        return False, f", because this {'study' if planned_flops else 'run'} is too short"
    can = compiles_on(step.runtime.device)
    return can, "" if can else " (torch's compiler for CUDA needs Triton, which is not installed)"


def training_flops(step: TrainStep, steps: int) -> float:
    """Six for each parameter and token (Kaplan et al. 2020), up to the longest sequences."""
    network = step.loss_module.network
    tokens = steps * step.config.batch_size * network.dims.context
    return 6.0 * tokens * sum(parameter.numel() for parameter in network.parameters())


def compiling_pays(flops: float, planned_flops: float) -> bool:
    """Whether a run of so many FLOPs is long enough, alone or as a part of what is planned on this GPU."""
    in_a_study = flops >= COMPILING_IN_A_STUDY_PAYS_FROM and planned_flops >= COMPILING_PAYS_FROM
    return flops >= COMPILING_PAYS_FROM or in_a_study


def compiles_on(device: torch.device) -> bool:
    """Whether steps can be compiled for this device, and gain by it."""
    if device.type != "cuda":
        return False
    from torch.utils._triton import has_triton  # it imports the compiler: seconds that a short run does not spend

    return bool(has_triton())


def accelerate(
    step: TrainStep, form: StepForm, watch: Watcher = SILENT, clock: Stopwatch | None = None
) -> TrainStep | GraphedStep:
    """``step`` in that form."""
    if form.compiled:
        compile_loss(step)
    return GraphedStep(step, watch, clock) if form.captured else step


def compile_loss(step: TrainStep) -> None:
    """Fuses the kernels of the forward and backward pass."""
    import torch._inductor.config as inductor

    if hasattr(inductor, "deterministic"):
        inductor.deterministic = True  # kernels are not chosen by timing them, so two runs choose the same
    step.compute_loss, step.compiled = torch.compile(step.compute_loss, dynamic=False), True
