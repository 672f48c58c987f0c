"""The table's own backward pass equals torch's."""

from __future__ import annotations

import torch
from torch.testing import assert_close

from glassformer.model.embedding_lookup import Embedding, _LookupByProduct

V, D, B, T = 7, 5, 3, 4


def test_rows_and_gradients_equal_torch_embedding() -> None:
    generator = torch.Generator().manual_seed(0)
    weight = torch.randn(V, D, generator=generator, dtype=torch.float64)
    ids = torch.randint(V, (B, T), generator=generator)
    upstream = torch.randn(B, T, D, generator=generator, dtype=torch.float64)
    ours, theirs = weight.clone().requires_grad_(), weight.clone().requires_grad_()
    out = _LookupByProduct.apply(ours, ids)
    expected = torch.nn.functional.embedding(ids, theirs)
    assert_close(out, expected)
    out.backward(upstream)
    expected.backward(upstream)
    assert ours.grad is not None
    assert_close(ours.grad, theirs.grad)


def test_a_row_used_twice_gets_both_gradients() -> None:
    weight = torch.zeros(3, 2, requires_grad=True)
    _LookupByProduct.apply(weight, torch.tensor([[1, 1]])).backward(torch.tensor([[[1.0, 2.0], [10.0, 20.0]]]))
    assert weight.grad is not None
    assert weight.grad.tolist() == [[0.0, 0.0], [11.0, 22.0], [0.0, 0.0]]


def test_on_the_cpu_it_is_torch_embedding() -> None:
    table = Embedding(V, D)
    ids = torch.tensor([[0, 6]])
    assert_close(table(ids), table.weight[ids])
