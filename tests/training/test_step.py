"""One step and its loss: micro-batches equal the whole, clipping by hand; only weights, batch, seed and step matter."""

from __future__ import annotations

import math

import pytest
import torch
from torch.nn import functional as F

from glassformer.data.batches import Batch
from glassformer.foundation.runtime import Runtime
from glassformer.model import losses as module
from glassformer.model.config import ModelConfig
from glassformer.model.losses import IGNORED, summed_cross_entropy
from glassformer.model.transformer import build_model
from glassformer.objectives.next_token import NextTokenConfig
from glassformer.training.step import TrainingLoss


def gradients_of(step, batch: Batch) -> tuple[float, dict[str, torch.Tensor]]:
    loss = step.gradients(batch)
    gradients = {name: parameter.grad.clone() for name, parameter in step.loss_module.network.named_parameters()}
    step.optimizers.zero_grad()
    return loss.item(), gradients


def uneven(batch: Batch) -> Batch:
    """Targets that count are spread unevenly over the rows: the mean of means would be another number."""
    batch["targets"][0, 1:] = IGNORED
    batch["targets"][3, :5] = IGNORED
    return batch


@pytest.mark.parametrize("micro_batches", [2, 4, 8])
def test_micro_batches_equal_the_large_batch(make_step, some_batches, micro_batches: int) -> None:
    """The promise: 1e-6 in float32, by token count."""
    batch = uneven(some_batches(8).batch(0))
    whole_loss, whole = gradients_of(make_step(batch_size=8), batch)
    loss, cut = gradients_of(make_step(batch_size=8, accumulate=micro_batches), batch)
    assert loss == pytest.approx(whole_loss, abs=1e-6)
    for name in whole:
        torch.testing.assert_close(cut[name], whole[name], rtol=1e-5, atol=1e-6)


def test_several_steps_in_pieces_stay_with_the_large_batch(make_step, some_batches) -> None:
    settings = {"batch_size": 8, "optimizer": "sgd", "lr": 0.1}
    whole, cut, batches = make_step(**settings), make_step(accumulate=4, **settings), some_batches(8)
    for number in range(5):
        batch = uneven(batches.batch(number))
        assert cut(batch, number, 1.0).loss.item() == pytest.approx(whole(batch, number, 1.0).loss.item(), abs=2e-6)
    for a, b in zip(whole.loss_module.network.parameters(), cut.loss_module.network.parameters()):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-6)


def test_the_mean_of_means_would_be_noticed(make_step, some_batches) -> None:
    batch = uneven(some_batches(8).batch(0))
    step = make_step(batch_size=8)
    halves = [
        gradients_of(step, Batch(ids=batch["ids"][rows], targets=batch["targets"][rows]))[0] for rows in (slice(4), slice(4, 8))
    ]
    assert abs(sum(halves) / 2 - gradients_of(step, batch)[0]) > 1e-4


def test_the_loss_is_the_mean_over_targets_before_the_step(make_step, some_batches) -> None:
    step, batch = make_step(), uneven(some_batches().batch(0))
    logits_BTV = step.loss_module.network.eval()(batch["ids"])
    expected = summed_cross_entropy(logits_BTV, batch["targets"]).item() / (batch["targets"] != IGNORED).sum().item()
    assert step(batch, 0, 1.0).loss.item() == pytest.approx(expected, rel=1e-5)
    assert expected == pytest.approx(math.log(11), rel=0.05)  # an untrained model knows nothing


def test_no_target_at_all_changes_no_gradient(make_step, some_batches) -> None:
    batch = some_batches().batch(0)
    batch["targets"][:] = IGNORED
    outcome = make_step(weight_decay=0.0)(batch, 0, 1.0)
    assert (outcome.loss.item(), outcome.grad_norm.item()) == (0.0, 0.0)


@pytest.mark.parametrize("clip", [0.01, 1e6, None])
def test_clipping_by_hand(make_step, some_batches, clip: float | None) -> None:
    """Plain gradient descent with rate 1: the change of the weights is the clipped gradient itself."""
    step = make_step(optimizer={"kind": "sgd", "momentum": 0.0}, lr=1.0, clip=clip, weight_decay=0.0)
    before = [parameter.detach().clone() for parameter in step.loss_module.network.parameters()]
    outcome = step(some_batches().batch(0), 0, 1.0)
    moved = math.sqrt(
        sum((old - new.detach()).square().sum().item() for old, new in zip(before, step.loss_module.network.parameters()))
    )
    length = outcome.grad_norm.item()  # as it was before clipping: what is recorded
    assert length > 0.01
    assert moved == pytest.approx(length if clip is None else min(length, clip), rel=1e-3)


def test_the_same_step_twice_gives_the_same_bits(make_step, some_batches) -> None:
    results = []
    for noise in (1, 2):
        step = make_step(model={"dropout": 0.3}, accumulate=2)
        torch.manual_seed(noise)  # whatever other code drew before
        torch.rand(noise)
        step(some_batches().batch(5), 5, 1.0)
        results.append([parameter.detach().clone() for parameter in step.loss_module.network.parameters()])
    assert all(torch.equal(a, b) for a, b in zip(*results))


def test_another_step_or_seed_drops_other_neurons(make_step, some_batches) -> None:
    losses = {
        make_step(model={"dropout": 0.3}, seed=3)(some_batches().batch(5), 5, 1.0).loss.item(),
        make_step(model={"dropout": 0.3}, seed=3)(some_batches().batch(5), 6, 1.0).loss.item(),
    }
    assert len(losses) == 2


def test_a_table_of_scores_that_is_too_large_is_made_in_chunks(make_step, some_batches, monkeypatch) -> None:
    whole = make_step()(some_batches().batch(0), 0, 1.0)
    seen: list[int] = []
    chunked = module.chunked_cross_entropy
    monkeypatch.setattr(module, "LARGEST_SCORE_TABLE", {"cpu": 5 * 11})
    monkeypatch.setattr(module, "chunked_cross_entropy", lambda *a, **o: seen.append(o["chunk"]) or chunked(*a, **o))
    in_chunks = make_step()(some_batches().batch(0), 0, 1.0)
    assert seen == [5]
    torch.testing.assert_close(in_chunks.loss, whole.loss)
    torch.testing.assert_close(in_chunks.grad_norm, whole.grad_norm)


def test_gradients_are_forgotten_after_a_step(make_step, some_batches) -> None:
    step = make_step()
    step(some_batches().batch(0), 0, 1.0)
    assert all(parameter.grad is None for parameter in step.loss_module.network.parameters())


def test_training_mode_is_set_whatever_evaluation_left(make_step, some_batches) -> None:
    step = make_step(model={"dropout": 0.5})
    step.loss_module.network.eval()
    step(some_batches().batch(0), 0, 1.0)
    assert step.loss_module.network.training


def test_it_learns(make_step, some_batches) -> None:
    step, batch = make_step(lr=0.01), some_batches().batch(0)
    losses = [step(batch, number, 1.0).loss.item() for number in range(60)]
    assert losses[-1] < 0.5 * losses[0]


def test_fused_dropout_comes_from_the_step_alone(make_step, some_batches) -> None:
    outcomes = []
    for number in (3, 3, 4):
        step = make_step(model={"dropout": 0.3})
        step.compiled = True
        outcomes.append(step(some_batches().batch(0), number, 1.0).loss)
    assert torch.equal(outcomes[0], outcomes[1])
    assert not torch.equal(outcomes[0], outcomes[2])


def test_measuring_a_step_gives_its_figures_and_changes_nothing(make_step, some_batches) -> None:
    step, batch = make_step(model={"dropout": 0.1}, accumulate=2, clip=1e-3), some_batches().batch(0)
    before = {name: parameter.clone() for name, parameter in step.loss_module.network.named_parameters()}
    measured = step.measure(batch, 4)
    assert all(torch.equal(parameter, before[name]) for name, parameter in step.loss_module.network.named_parameters())
    assert all(parameter.grad is None for parameter in step.loss_module.network.parameters())
    assert not step.optimizers.tensors()
    taken = step(batch, 4, 1.0)
    assert torch.equal(measured.loss, taken.loss)
    assert torch.equal(measured.grad_norm, taken.grad_norm)


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
    assert seen["dropout_seed"] is noise
    assert seen["names"] == {"ids", "targets"}
    assert seen["inside"]
    TrainingLoss(make().network, Objective(), RUNTIME)(batch.tensors)
    assert (seen["dropout_seed"], seen["inside"]) == (None, False)
