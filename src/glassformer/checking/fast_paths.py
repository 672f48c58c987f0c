"""The laws on what really runs: the compiled loss, the captured step, generation in bf16.

The checks of ``checks/`` see the model as it is written. What is compiled or captured as a CUDA graph is other code, so it is
tested too, with the run's own compilation and batch, before the first record; generation in bf16 before its first text.
"""

from __future__ import annotations

import copy
import functools
from typing import Any

import torch
from torch import Tensor

from glassformer.checks.check_report import CheckReport, short_error
from glassformer.checks.forward_passes import relative, same_generators
from glassformer.checks.loss_laws import OTHER_PATH, check_loss, check_same
from glassformer.checks.state_snapshot import Snapshot
from glassformer.data.batches import Batch
from glassformer.foundation.errors import GlassformerError
from glassformer.generation.generate import scores_by_reference, scores_in_generation
from glassformer.model.losses import IGNORED
from glassformer.model.transformer import Transformer
from glassformer.training.cuda_graph import GraphedStep
from glassformer.training.step import TrainStep

PROMPTS = 4
"""Random prompts after which the scores of generation are compared."""
SEEDS, SPREADS = 6, 6.0
"""Where paths draw random numbers of their own: seeds, and how many standard deviations of one their means may differ."""
MOST_ROUNDING = 0.1
"""Beyond this share of the largest score no rounding explains a difference."""


def has_fast_paths(step: TrainStep | GraphedStep) -> bool:
    """Whether anything but the model as it is written will run."""
    return step.uncaptured.compiled or isinstance(step, GraphedStep)


def check_step(step: TrainStep | GraphedStep, batch: Batch, *, laws: frozenset[str], vocabulary: int) -> CheckReport:
    """Every fast path of the run; network, optimizer and generators are afterwards as they were."""
    network: Any = step.uncaptured.loss_module.network
    snapshot, training = Snapshot(network), network.training
    reports: list[CheckReport] = []
    with same_generators(step.runtime.device):
        try:
            if step.uncaptured.compiled:
                reports += check_compiled(step, batch, laws=laws, vocabulary=vocabulary)
            if isinstance(step, GraphedStep):
                reports += check_captured(step, batch)
        finally:
            snapshot.restore()
            network.train(training)
    return functools.reduce(CheckReport.joined, reports, CheckReport("the fast paths"))


def check_compiled(step: TrainStep | GraphedStep, batch: Batch, *, laws: frozenset[str], vocabulary: int) -> list[CheckReport]:
    """The laws on the compiled loss; then the compiled step against the plain one."""
    batch, compiled = _as_the_step_reads(step, batch), step.uncaptured
    piece = batch.split(batch.rows // step.accumulate)[0]
    compiled.loss_module.train()
    laws_on_the_loss = check_loss(
        compiled.compute_loss,
        piece.tensors,
        vocabulary=min(vocabulary, compiled.loss_module.network.dims.vocabulary),  # of two vocabularies ids are the target's
        outputs=compiled.loss_module.network.dims.num_outputs,
        laws=laws,
        precision=step.runtime.precision,
        dropout_seed=torch.zeros((), dtype=torch.long, device=step.runtime.device) + 12345,
        smoothing=compiled.loss_module.smoothing,
        name="the compiled loss",
    )
    plain = copy.copy(compiled)
    plain.compute_loss = compiled.loss_module  # uncompiled, with the same random numbers
    return [laws_on_the_loss, _same(plain, compiled, batch, "the compiled step")]


def check_captured(step: GraphedStep, batch: Batch) -> list[CheckReport]:
    """The step as its CUDA graph replays it against the step it was captured from."""
    batch = _as_the_step_reads(step, batch)
    # The second batch has no targets, so its loss must be 0: a graph that replays the first batch gives another value.
    reports = [_same(step.uncaptured, step, one, "the captured step") for one in (batch, _without_targets(batch))]
    return reports if step.replays(batch) else []  # what cannot be captured runs as it is


def _as_the_step_reads(step: TrainStep | GraphedStep, batch: Batch) -> Batch:
    """On its device; a captured step reads a copy, which has strides of its own."""
    batch = batch.to(step.runtime.device)
    return batch.clone() if isinstance(step, GraphedStep) else batch


def _without_targets(batch: Batch) -> Batch:
    targets = ("targets", "labels")
    return Batch(**{name: torch.full_like(t, IGNORED) if name in targets else t for name, t in batch.tensors.items()})


def _same(plain: TrainStep, fast: TrainStep | GraphedStep, batch: Batch, name: str) -> CheckReport:
    """Loss and gradient norm of both. Where dropout is drawn by torch's generator (inside attention), a compiled step draws
    other numbers: then the means over several seeds are compared, beside the spread of the plain step."""

    def measured(step: TrainStep | GraphedStep, seeds: int = 1) -> dict[str, Tensor]:
        outcomes = [step.measure(batch, seed) for seed in range(seeds)]
        return {
            "loss": torch.stack([one.loss for one in outcomes]),
            "grad_norm": torch.stack([one.grad_norm for one in outcomes]),
        }

    precision = plain.runtime.precision
    report = check_same(lambda: measured(plain), lambda: measured(fast), precision=precision, name=name)
    if not report.broken or not _draws(plain, batch):
        return report
    expected, measured_fast = measured(plain, SEEDS), measured(fast, SEEDS)
    return check_same(
        lambda: {key: values.mean() for key, values in expected.items()},
        lambda: {key: values.mean() for key, values in measured_fast.items()},
        spread={key: SPREADS * float(values.std()) for key, values in expected.items()},
        precision=precision,
        name=name,
    )


def _draws(step: TrainStep, batch: Batch) -> bool:
    """Whether the loss depends on torch's generator."""
    dropout_seed, losses = torch.zeros((), dtype=torch.long, device=step.runtime.device), []
    for seed in (1, 2):
        torch.manual_seed(seed)
        losses.append(float(step.loss_module(batch.tensors, dropout_seed).detach()))
    return losses[0] != losses[1]


def check_generation(network: Transformer, *, vocabulary: int, dtype: torch.dtype = torch.bfloat16) -> CheckReport:
    """Scores of the next token as generation in bf16 computes them, against the definition in float32.

    Allowed is 3 % of the largest score, or twice what rounding alone does (the definition in bf16), at most a tenth.
    """
    name, generator = "generation in bf16", torch.Generator().manual_seed(0)
    lengths = [max(1, network.dims.context * (row + 1) // (PROMPTS + 1)) for row in range(PROMPTS)]
    prompts = [torch.randint(vocabulary, (length,), generator=generator).tolist() for length in lengths]
    network.eval()
    try:
        low = copy.deepcopy(network).to(dtype).eval()
        expected = scores_by_reference(network, prompts)
        rounding = relative(expected, scores_by_reference(low, prompts))
    except (GlassformerError, RuntimeError) as error:
        return CheckReport(name, cannot_tell={"path": short_error(error)})
    return check_same(
        lambda: {"scores": expected},
        lambda: {"scores": scores_in_generation(low, prompts)},
        allowed=min(max(OTHER_PATH["bf16"], 2 * rounding), MOST_ROUNDING),
        precision="bf16",
        name=name,
    )
