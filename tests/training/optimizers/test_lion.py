"""Lion: two steps worked out on paper, with decay."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from glassformer.training.optimizers.lion import LionConfig


def test_two_steps_by_hand() -> None:
    weight, bias = nn.Parameter(torch.tensor([[1.0, -2.0]])), nn.Parameter(torch.tensor([1.0]))
    config = LionConfig(betas=(0.5, 0.75))
    (optimizer,) = config.build({"w": weight, "b": bias}, lr=0.1, weight_decay=0.5)
    values = []
    for gradient in ([4.0, -4.0], [-2.0, 8.0]):
        # means 0, then a quarter of 4 and -4: directions of (2, -2), then of (1 - 2) / 2 and (-1 + 8) / 2
        weight.grad, bias.grad = torch.tensor([gradient]), torch.tensor([3.0])
        optimizer.step()
        values.append(weight.flatten().tolist())
    assert values[0] == pytest.approx([1 * 0.95 - 0.1, -2 * 0.95 + 0.1])
    assert values[1] == pytest.approx([0.85 * 0.95 + 0.1, -1.8 * 0.95 - 0.1])
    assert bias.item() == pytest.approx(0.8)  # no decay
    assert optimizer.state[weight]["mean"].flatten().tolist() == pytest.approx([0.75 * 1 - 0.5, -0.75 + 2.0])
    assert config.numbers_per_parameter("w", weight) == 2
