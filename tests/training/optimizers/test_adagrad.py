"""Adagrad: two steps worked out on paper."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from glassformer.training.optimizers.adagrad import AdagradConfig


def test_two_steps_by_hand() -> None:
    weight = nn.Parameter(torch.tensor([[1.0]]))
    (optimizer,) = AdagradConfig().build({"w": weight}, lr=0.1, weight_decay=0.0)
    values = []
    for gradient in (3.0, 4.0):  # divided by the root of 9, then of 9 + 16
        weight.grad = torch.tensor([[gradient]])
        optimizer.step()
        values.append(weight.item())
    assert values == pytest.approx([0.9, 0.9 - 0.1 * 4 / 5])
