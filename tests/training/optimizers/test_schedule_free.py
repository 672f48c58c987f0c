"""Schedule-free AdamW: two steps worked out on paper."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from glassformer.training.optimizers.schedule_free import ScheduleFreeConfig


def test_two_steps_by_hand() -> None:
    weight = nn.Parameter(torch.tensor([[2.0]]))
    config = ScheduleFreeConfig(betas=(0.5, 0.75), eps=1e-30)
    (optimizer,) = config.build({"w": weight}, lr=0.1, weight_decay=0.5)
    weight.grad = torch.tensor([[4.0]])
    optimizer.step()
    z = 2.0 - 0.1 * (1.0 + 0.5 * 2.0)  # the first step of Adam has size 1
    x = z  # the whole of the first step's squared rate
    assert weight.item() == pytest.approx(0.5 * z + 0.5 * x)
    optimizer.param_groups[0]["lr"] = 0.2
    weight.grad = torch.tensor([[-2.0]])
    y, squares = weight.item(), 0.75 * 0.25 * 16 + 0.25 * 4
    optimizer.step()
    z -= 0.2 * (-2.0 / math.sqrt(squares / (1 - 0.75**2)) + 0.5 * y)
    c = 0.2**2 / (0.1**2 + 0.2**2)
    x = (1 - c) * x + c * z
    assert optimizer.averaged()[weight].item() == pytest.approx(x)
    assert weight.item() == pytest.approx(0.5 * z + 0.5 * x)
    assert config.numbers_per_parameter("w", weight) == sum(tensor.numel() for tensor in optimizer.state[weight].values())
