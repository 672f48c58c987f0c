"""AdamW: to the bit what torch's class gives, and its memory by torch's names."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from glassformer.training.adamw_update import AdamW

SETTINGS = {"lr": 0.03, "betas": (0.8, 0.97), "eps": 0.01}


def same_weights_twice() -> tuple[list[nn.Parameter], list[nn.Parameter]]:
    rng = torch.Generator().manual_seed(5)
    values = [torch.randn(shape, generator=rng) for shape in ((3, 7), (5,), (2, 3, 4))]
    return [nn.Parameter(value.clone()) for value in values], [nn.Parameter(value.clone()) for value in values]


@pytest.mark.parametrize("capturable", [False, True])
@pytest.mark.parametrize("fused", [True, False])
def test_equals_torch_bit_for_bit(fused: bool, capturable: bool) -> None:
    """Over steps with changing rates, in two groups, with a weight that has a gradient at every other step only."""
    if capturable and not fused:
        pytest.skip("torch takes this way on a GPU only")
    ours, theirs = same_weights_twice()
    split = [{"weight_decay": 0.2}, {"weight_decay": 0.0}]
    mine = AdamW([{"params": ours[:1], **split[0]}, {"params": ours[1:], **split[1]}], **SETTINGS)
    groups = [{"params": theirs[:1], **split[0]}, {"params": theirs[1:], **split[1]}]
    torchs = torch.optim.AdamW(groups, **SETTINGS, fused=fused, capturable=capturable)
    for group in mine.param_groups:
        group.update(fused=fused, capturable=capturable)
    rng = torch.Generator().manual_seed(6)
    for step in range(7):
        for number, (own, other) in enumerate(zip(ours, theirs)):
            gradient = torch.randn(own.shape, generator=rng)
            own.grad, other.grad = (None, None) if number == 1 and step % 2 else (gradient.clone(), gradient.clone())
        for optimizer in (mine, torchs):
            for group in optimizer.param_groups:
                group["lr"] = SETTINGS["lr"] / (step + 1)
            optimizer.step()
    for own, other in zip(ours, theirs):
        assert torch.equal(own, other)
        assert list(mine.state[own]) == list(torchs.state[other])
        for key, value in torchs.state[other].items():
            assert torch.equal(mine.state[own][key], value), key
            assert mine.state[own][key].dtype == value.dtype, key


def test_is_fused_where_torch_has_the_kernel() -> None:
    ours, _ = same_weights_twice()
    assert [group["fused"] for group in AdamW([{"params": ours}], **SETTINGS).param_groups] == [True]
    elsewhere = [nn.Parameter(torch.ones(2, device="meta"))]
    assert [group["fused"] for group in AdamW([{"params": elsewhere}], **SETTINGS).param_groups] == [False]
