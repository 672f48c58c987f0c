"""The moving average: two steps worked out on paper; evaluated, saved and put back."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from glassformer.training.averages.ema import MovingAverageConfig
from glassformer.training.config import TrainingConfig
from glassformer.training.optimizer_set import OptimizerSet, optimizer_bytes


def test_two_steps_by_hand() -> None:
    weight = nn.Parameter(torch.tensor([4.0]))
    average = MovingAverageConfig(decay=0.75).build(nn.Linear(1, 1), {"w": weight})
    average()
    assert average.averaged()[weight].item() == pytest.approx(4.0)  # the first average is the first weight
    weight.data.fill_(8.0)
    average()
    assert average.averaged()[weight].item() == pytest.approx((0.75 * 0.25 * 4 + 0.25 * 8) / (1 - 0.75**2))


def test_before_the_first_step_it_is_the_weights() -> None:
    weight = nn.Parameter(torch.tensor([4.0, -1.0]))
    average = MovingAverageConfig(decay=0.75).build(nn.Linear(1, 1), {"w": weight})
    average()
    for memory in average.state[weight].values():
        memory.zero_()  # as after the steps that precede the capture of a CUDA graph
    assert torch.equal(average.averaged()[weight], weight)


def test_an_evaluation_sees_the_average_and_training_does_not() -> None:
    training = TrainingConfig.parse({"steps": 2, "average": {"kind": "ema", "decay": 0.5}, "lr": 0.1})
    model = nn.Linear(3, 2)
    optimizers = OptimizerSet(training, model)
    for _ in range(3):
        model(torch.ones(4, 3)).square().sum().backward()
        optimizers.step()
        optimizers.zero_grad()
    before = model.weight.detach().clone()
    with optimizers.evaluating(model) as trained:
        assert torch.equal(trained["weight/trained"], before)
        assert not torch.equal(model.weight, before)
        inside = model.weight.detach().clone()
    assert torch.equal(model.weight, before)
    assert optimizer_bytes(training, model) == sum(tensor.nbytes for tensor in optimizers.tensors().values())

    other = nn.Linear(3, 2)
    with torch.no_grad():
        other.weight.copy_(inside)
    again = OptimizerSet(training, other)
    again.load({**optimizers.tensors(), **trained})
    assert torch.equal(other.weight, before)  # what training goes on from, not what was saved as the model
    assert all(torch.equal(tensor, again.tensors()[name]) for name, tensor in optimizers.tensors().items())
