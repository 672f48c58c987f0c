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
