"""Sizes: the few that follow from others, by hand."""

from __future__ import annotations

from glassformer.model.dims import Dims, matmul_flops


def test_by_hand() -> None:
    dims = Dims(width=12, heads=3, layers=2, context=7, vocabulary=11)
    assert dims.head_width == 4
    assert dims.attention_width == 12


def test_a_product_is_two_operations_per_inner_element() -> None:
    # [3, 5] @ [5, 7]: 21 sums of 5 products, a multiplication and an addition each
    assert matmul_flops(3, 5, 7) == 210
    assert matmul_flops(2, 3, 5, 7) == 420
