"""Every variant on a GPU: the requirements of the conformance suite that compute, the CPU's scores and gradients, and a step
that is captured as a CUDA graph, in float32 and in bf16."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from tests.gpu.conftest import DEVICE

from glassformer.checks.conformance import CROSS_SLOT, ConformanceCase, VariantExample, cases
from glassformer.data.batches import Batch
from glassformer.foundation.runtime import Precision, Runtime
from glassformer.model.losses import summed_cross_entropy
from glassformer.objectives.next_token import NextTokenConfig
from glassformer.training.config import TrainingConfig
from glassformer.training.cuda_graph import GraphedStep
from glassformer.training.optimizer_set import OptimizerSet
from glassformer.training.step import TrainingLoss, TrainStep

COMPUTES = ("shapes", "laws", "together", "fast path", "gradients", "own losses", "learns")
CASES = [case for case in cases(device=DEVICE) if case.name in COMPUTES]
EXAMPLES = [case.variant for case in CASES if case.name == "shapes"]
STEPPED = [one for one in EXAMPLES if one.slot != CROSS_SLOT and not one.pools]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_conforms_on_a_gpu(case: ConformanceCase) -> None:
    assert case.run() is None


@pytest.mark.parametrize("example", EXAMPLES, ids=str)
def test_scores_and_gradients_are_those_of_the_cpu(example: VariantExample) -> None:
    """In float64, in which the two differ by rounding alone."""
    found = {}
    for where in ("cpu", DEVICE):
        there = replace(example, device=where)
        model = there.model().double().eval()
        scores = there.scores(model, there.ids())
        summed_cross_entropy(scores, there.targets()).backward()
        gradients = [one.grad for one in model.parameters() if one.grad is not None]
        found[where] = scores.detach().cpu(), torch.cat([one.flatten() for one in gradients]).cpu()
    for own, reference in zip(found[DEVICE], found["cpu"], strict=True):
        assert float((own - reference).norm()) <= 1e-6 * float(reference.norm())


@pytest.mark.parametrize("precision", ["float32", "bf16"])
@pytest.mark.parametrize("example", STEPPED, ids=str)
def test_a_captured_step_is_the_plain_one(example: VariantExample, precision: Precision) -> None:
    losses = []
    for captures in (False, True):
        step = step_of(example, precision)
        taken = GraphedStep(step) if captures else step
        if isinstance(taken, GraphedStep):
            assert taken.capture(batch_of(example, 0)) is None  # it gives the reason, where it cannot be captured
        losses.append([taken(batch_of(example, number), number, 1.0).loss.item() for number in range(3)])
    assert losses[0] == pytest.approx(losses[1], rel=1e-4 if precision == "float32" else 2e-2)


def step_of(example: VariantExample, precision: Precision) -> TrainStep:
    config = TrainingConfig.parse({"steps": 10, "batch_size": 5})
    runtime = Runtime(torch.device(DEVICE), precision, 1)
    model = example.model().train()
    return TrainStep(TrainingLoss(model, NextTokenConfig(), runtime), OptimizerSet(config, model), config, runtime, 1)


def batch_of(example: VariantExample, number: int) -> Batch:
    ids_BT = example.ids().roll(number, 0)
    return Batch(ids=ids_BT, targets=ids_BT.roll(-1, 1).contiguous())
