"""A network and its objective as one module: the objective's sum, in the runtime's precision, over at least one target."""

from __future__ import annotations

import math

import pytest
import torch
from torch.nn import functional as F

from glassformer.data.batches import Batch
from glassformer.foundation.runtime import Runtime
from glassformer.model.config import ModelConfig
from glassformer.model.transformer import build_model
from glassformer.objectives.next_token import NextTokenConfig
from glassformer.training.loss import TrainingLoss

VOCABULARY, ROWS, CONTEXT = 11, 3, 7
RUNTIME = Runtime(torch.device("cpu"), "float32", 1)


def make(smoothing: float = 0.0) -> TrainingLoss:
    config = ModelConfig.parse({"width": 12, "heads": 2, "layers": 1, "context": CONTEXT})
    return TrainingLoss(build_model(config, VOCABULARY, seed=1), NextTokenConfig(), RUNTIME, smoothing=smoothing)


@pytest.fixture
def batch() -> Batch:
    windows = torch.randint(VOCABULARY, (ROWS, CONTEXT + 1), generator=torch.Generator().manual_seed(2))
    return Batch(ids=windows[:, :-1], targets=windows[:, 1:].clone())


def test_the_summed_cross_entropy(batch) -> None:
    loss = make()
    logits = loss.network(batch["ids"]).flatten(0, 1)
    assert loss(batch.tensors).item() == pytest.approx(
        F.cross_entropy(logits, batch["targets"].flatten(), reduction="sum").item()
    )


def test_by_hand_when_the_network_knows_nothing(batch) -> None:
    """All weights zero: every token has the probability 1 in 11, whatever the smoothing."""
    for smoothing in (0.0, 0.25):
        loss = make(smoothing)
        for parameter in loss.network.parameters():
            parameter.data.zero_()
        assert loss(batch.tensors).item() == pytest.approx(ROWS * CONTEXT * math.log(VOCABULARY), rel=1e-5)


def test_smoothing_reaches_the_objective(batch) -> None:
    logits = make().network(batch["ids"]).flatten(0, 1)
    expected = F.cross_entropy(logits, batch["targets"].flatten(), reduction="sum", label_smoothing=0.25)
    assert make(0.25)(batch.tensors).item() == pytest.approx(expected.item(), rel=1e-5)
    assert make(0.25)(batch.tensors).item() != pytest.approx(make()(batch.tensors).item(), rel=1e-5)


def test_the_sums_of_pieces_are_the_sum_of_the_whole(batch) -> None:
    loss = make()
    total = sum(loss(micro_batch.tensors).item() for micro_batch in batch.split(2))
    assert total == pytest.approx(loss(batch.tensors).item(), rel=1e-5)


def test_targets_are_counted_and_never_none(batch) -> None:
    loss = make()
    assert loss.count(batch).item() == ROWS * CONTEXT
    batch["targets"][0, 2:] = -100
    assert loss.count(batch).item() == ROWS * CONTEXT - 5
    batch["targets"].fill_(-100)
    assert loss.count(batch).item() == 1  # nothing is divided by nothing


def test_noise_and_precision_are_those_that_are_given(batch) -> None:
    seen = {}

    class Objective(NextTokenConfig):
        def loss(self, network, batch, *, dropout_seed, smoothing):
            seen.update(dropout_seed=dropout_seed, inside=torch.is_autocast_enabled("cpu"), names=set(batch.tensors))
            return torch.zeros(())

    low = TrainingLoss(make().network, Objective(), Runtime(torch.device("cpu"), "bf16", 1))
    noise = torch.tensor(5)
    low(batch.tensors, noise)
    assert seen["noise"] is noise
    assert seen["names"] == {"ids", "targets"}
    assert seen["inside"]
    TrainingLoss(make().network, Objective(), RUNTIME)(batch.tensors)
    assert (seen["noise"], seen["inside"]) == (None, False)
