"""A step in pieces: the same bits however many processes share them; the gradient of the whole batch up to rounding."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tests.graphs import stand_in

from glassformer.foundation.errors import ConfigError
from glassformer.foundation.seeds import derive_seed
from glassformer.training.config import TrainingConfig
from glassformer.training.cuda_graph import GraphedStep
from glassformer.training.parallel import tree
from glassformer.training.parallel.group import Alone
from glassformer.training.parallel.tree import share_of
from glassformer.training.step import TrainStep

PIECES, STEPS = 8, 3


class Part(Alone):  # type: ignore[misc]
    """One of several processes, in this one: takes its share, and leaves what it would send."""

    def __init__(self, rank: int, world: int) -> None:
        self.rank, self.world = rank, world

    def share(self, pieces: int) -> range:
        return share_of(pieces, self.rank, self.world)


def trained(make_step: Any, some_batches: Any, world: int, **settings: Any) -> tuple[list[float], list[torch.Tensor]]:
    """Losses, weights and optimizer after some steps of so many processes, whose sums are made here as the group makes them."""
    step: TrainStep = make_step(batch_size=16, pieces=PIECES, **settings)
    batches, losses = some_batches(16), []
    for number in range(STEPS):
        batch = batches.batch(number)
        step.prepare(number, 1.0)
        parts = []
        for rank in range(world):
            step.processes = Part(rank, world)
            parts.append(step.summed(batch))
        while len(parts) > 1:
            parts = [left + right for left, right in zip(parts[::2], parts[1::2])]
        losses.append(float(step.apply(step.take(parts[0])).loss))
    return losses, [*step.loss_module.network.parameters(), *step.optimizers.tensors().values()]


@pytest.mark.parametrize("world", [2, 4, 8])
@pytest.mark.parametrize(
    "settings",
    [
        {"optimizer": "adamw", "model": {"dropout": 0.2}},
        {"optimizer": "muon", "model": {"dropout": 0.1}, "accumulate": 2},
        {"optimizer": "sgd", "clip": None, "label_smoothing": 0.1},
    ],
    ids=lambda settings: settings["optimizer"],
)
def test_the_same_bits_on_any_number_of_processes(make_step, some_batches, world: int, settings: dict[str, Any]) -> None:
    losses, numbers = trained(make_step, some_batches, 1, **settings)
    found, others = trained(make_step, some_batches, world, **settings)
    assert found == losses
    assert all(torch.equal(one, other) for one, other in zip(numbers, others, strict=True))


def equal(make_step: Any, some_batches: Any, world: int) -> bool:
    one, other = (trained(make_step, some_batches, n, model={"dropout": 0.2})[1] for n in (1, world))
    return all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


def test_a_seed_by_step_alone_is_noticed(make_step, some_batches, monkeypatch) -> None:
    def by_step_alone(self: TrainStep, piece: int) -> None:
        if piece in (0, self.processes.share(PIECES)[0]):
            torch.manual_seed(derive_seed(self.seed, "step", self._number))

    assert equal(make_step, some_batches, 2)
    monkeypatch.setattr(TrainStep, "seed_piece", by_step_alone)
    assert not equal(make_step, some_batches, 2)


def test_a_sum_in_order_is_noticed(make_step, some_batches, monkeypatch) -> None:
    def in_order(self: tree.PairwiseSum, tensor: torch.Tensor) -> None:
        self._partial = [(0, self._partial[0][1] + tensor if self._partial else tensor)]

    assert equal(make_step, some_batches, 4)
    monkeypatch.setattr(tree.PairwiseSum, "add", in_order)
    assert not equal(make_step, some_batches, 4)


def test_pieces_give_the_gradient_of_the_whole_batch(make_step, some_batches) -> None:
    whole, cut, batch = make_step(batch_size=16), make_step(batch_size=16, pieces=4), some_batches(16).batch(0)
    a, b = whole.measure(batch), cut.measure(batch)
    torch.testing.assert_close(a.loss, b.loss)
    torch.testing.assert_close(a.grad_norm, b.grad_norm)


def test_a_weight_that_no_piece_needs_stays_as_it_is(make_step, some_batches) -> None:
    """As without pieces: it has no gradient, so weight decay leaves it alone."""
    step = make_step(batch_size=16, pieces=4, lr=0.1)
    weights = step.optimizers.parameters
    name = next(name for name in weights if "embedding" in name or "blocks.1" in name)
    unused, backward = weights[name], step._backward

    def without(batch: Any, targets: Any) -> Any:
        loss = backward(batch, targets)
        unused.grad = None
        return loss

    step._backward = without
    before = {one: weight.detach().clone() for one, weight in weights.items()}
    step(some_batches(16).batch(0), 0, 1.0)
    assert torch.equal(unused, before[name])
    assert not any(torch.equal(weight, before[one]) for one, weight in weights.items() if one != name and weight.ndim > 1)


def test_a_captured_step_in_pieces_is_the_plain_one(make_step, some_batches, monkeypatch) -> None:
    """Two graphs, the gradients of a piece and the update; the seeds of pieces are set between replays."""
    settings = {"batch_size": 16, "pieces": 4, "model": {"dropout": 0.2}, "optimizer": "muon"}
    plain, batches = make_step(**settings), some_batches(16)
    plain.optimizers.make_capturable()
    stand_in(monkeypatch)
    captured = GraphedStep(make_step(**settings))
    for number in range(STEPS):
        batch = batches.batch(number)
        expected, found = plain(batch, number, 1.0), captured(batch, number, 1.0)
        assert torch.equal(expected.loss, found.loss)
        assert torch.equal(expected.grad_norm, found.grad_norm)
    assert captured.replays(batches.batch(0))
    pairs = zip(plain.loss_module.parameters(), captured.uncaptured.loss_module.parameters())
    assert all(torch.equal(a, b) for a, b in pairs)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"pieces": 6, "batch_size": 12}, "4 or 8"),
        ({"pieces": 4, "batch_size": 18}, "for example 20"),
        ({"pieces": 4, "batch_size": 12, "accumulate": 2}, "a multiple of 8"),
    ],
)
def test_what_cannot_be_cut_is_refused(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        TrainingConfig.parse({"steps": 1, **settings})
