"""Gradient descent with momentum: two steps worked out on paper."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from glassformer.foundation.errors import ConfigError
from glassformer.training.optimizers.sgd import SGDConfig


def test_two_steps_by_hand() -> None:
    weight = nn.Parameter(torch.tensor([[1.0]]))
    (optimizer,) = SGDConfig(momentum=0.5).build({"w": weight}, lr=0.1, weight_decay=0.0)
    values = []
    for gradient in (2.0, 4.0):  # the momentum is 2, then 0.5 * 2 + 4 = 5
        weight.grad = torch.tensor([[gradient]])
        optimizer.step()
        values.append(weight.item())
    assert values == pytest.approx([0.8, 0.3])


def test_nesterov_without_momentum_is_refused() -> None:
    with pytest.raises(ConfigError, match="nesterov"):
        SGDConfig.parse({"nesterov": True, "momentum": 0.0})


@pytest.mark.parametrize("settings", [{}, {"momentum": 0.0}, {"nesterov": True}], ids=str)
def test_equals_torch_bit_for_bit(settings: dict[str, object]) -> None:
    """With decay, and a bias whose first gradient comes late."""
    rng = torch.Generator().manual_seed(2)
    config, values = SGDConfig.parse(settings), {"w": torch.randn(3, 5, generator=rng), "b": torch.randn(7, generator=rng)}
    ours, theirs = ({name: nn.Parameter(value.clone()) for name, value in values.items()} for _ in range(2))
    (mine,) = config.build(ours, lr=0.1, weight_decay=0.3)
    groups = [{"params": [theirs["w"]], "weight_decay": 0.3}, {"params": [theirs["b"]], "weight_decay": 0.0}]
    torchs = torch.optim.SGD(groups, lr=0.1, momentum=config.momentum, nesterov=config.nesterov)
    for step in range(4):
        for name in ("w", "b")[: 1 + (step > 1)]:
            ours[name].grad = torch.randn(values[name].shape, generator=rng)
            theirs[name].grad = ours[name].grad.clone()
        mine.step()
        torchs.step()
    for name in values:
        assert torch.equal(ours[name], theirs[name]), name
        kept, expected = mine.state[ours[name]], torchs.state[theirs[name]]
        assert kept.keys() == expected.keys() == ({"momentum_buffer"} if config.momentum else set())
        assert all(torch.equal(kept[key], expected[key]) for key in kept)
