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


def test_equals_torch_bit_for_bit() -> None:
    """With decay, and a bias that never has a gradient: its memory is there all the same, as it is in torch's."""
    rng = torch.Generator().manual_seed(2)
    values = {"w": torch.randn(3, 5, generator=rng), "b": torch.randn(7, generator=rng)}
    ours, theirs = ({name: nn.Parameter(value.clone()) for name, value in values.items()} for _ in range(2))
    (mine,) = AdagradConfig(eps=1e-6).build(ours, lr=0.1, weight_decay=0.3)
    groups = [{"params": [theirs["w"]], "weight_decay": 0.3}, {"params": [theirs["b"]], "weight_decay": 0.0}]
    torchs = torch.optim.Adagrad(groups, lr=0.1, eps=1e-6)
    for _ in range(4):
        ours["w"].grad = torch.randn(3, 5, generator=rng)
        theirs["w"].grad = ours["w"].grad.clone()
        mine.step()
        torchs.step()
    for name in values:
        assert torch.equal(ours[name], theirs[name]), name
        kept, expected = mine.state[ours[name]], torchs.state[theirs[name]]
        assert list(kept) == list(expected) == ["step", "sum"]
        assert all(torch.equal(kept[key], expected[key]) and kept[key].dtype == expected[key].dtype for key in kept)
