"""reweight: each head times its norm over batch and time, by hand."""

from __future__ import annotations

import torch

from glassformer.model.dims import Dims
from glassformer.model.merges.reweight import ReweightConfig

DIMS = Dims(width=4, heads=2, layers=1, context=5, vocabulary=7)
Z_BHTE = torch.tensor(
    [[[[3.0, 4.0], [0.0, 0.0]], [[1.0, 0.0], [2.0, 2.0]]], [[[0.0, 12.0], [0.0, 0.0]], [[0.0, 0.0], [4.0, 0.0]]]]
)


def test_factor_of_each_head() -> None:
    merged_BTD = ReweightConfig().build(DIMS)(Z_BHTE)
    # head 1: sqrt(9 + 16 + 144) = 13; head 2: sqrt(1 + 4 + 4 + 16) = 5
    expected_BTD = torch.tensor(
        [[[39.0, 52.0, 5.0, 0.0], [0.0, 0.0, 10.0, 10.0]], [[0.0, 156.0, 0.0, 0.0], [0.0, 0.0, 20.0, 0.0]]]
    )
    torch.testing.assert_close(merged_BTD, expected_BTD)


def test_declares_the_laws_it_breaks() -> None:
    assert ReweightConfig.breaks == {"causality", "batch", "padding", "cache"}


def test_a_head_of_zeros_has_a_gradient() -> None:
    z_BHTE = torch.zeros_like(Z_BHTE, requires_grad=True)
    ReweightConfig().build(DIMS)(z_BHTE).sum().backward()
    assert z_BHTE.grad is not None
    assert z_BHTE.grad.isfinite().all()
