"""reweight_position: each head times its norm over one place, by hand."""

from __future__ import annotations

import torch

from glassformer.model.dims import Dims
from glassformer.model.merges.reweight import ReweightPositionConfig

DIMS = Dims(width=4, heads=2, layers=1, context=5, vocabulary=7)
Z_BHTE = torch.tensor(
    [[[[3.0, 4.0], [0.0, 0.0]], [[1.0, 0.0], [2.0, 2.0]]], [[[0.0, 12.0], [0.0, 0.0]], [[0.0, 0.0], [4.0, 0.0]]]]
)


def test_factor_of_each_head() -> None:
    merged_BTD = ReweightPositionConfig().build(DIMS)(Z_BHTE)
    # the norms of the vectors: 5, 0 and 1, sqrt 8; then 12, 0 and 0, 4
    root = 2 * 8**0.5
    expected_BTD = torch.tensor(
        [[[15.0, 20.0, 1.0, 0.0], [0.0, 0.0, root, root]], [[0.0, 144.0, 0.0, 0.0], [0.0, 0.0, 16.0, 0.0]]]
    )
    torch.testing.assert_close(merged_BTD, expected_BTD)


def test_declares_the_laws_it_breaks() -> None:
    assert ReweightPositionConfig.breaks == frozenset()


def test_a_head_of_zeros_has_a_gradient() -> None:
    z_BHTE = torch.zeros_like(Z_BHTE, requires_grad=True)
    ReweightPositionConfig().build(DIMS)(z_BHTE).sum().backward()
    assert z_BHTE.grad is not None
    assert z_BHTE.grad.isfinite().all()
