"""Layer normalisation: by hand."""

from __future__ import annotations

import math

import torch

from glassformer.model.dims import Dims
from glassformer.model.norms.layer import LayerConfig

DIMS = Dims(width=3, heads=1, layers=1, context=5, vocabulary=7)


def test_by_hand() -> None:
    # mean 3, variance (4 + 0 + 4) / 3
    norm = LayerConfig(eps=1e-12).build(DIMS)
    s = math.sqrt(1.5)
    torch.testing.assert_close(norm(torch.tensor([[1.0, 3.0, 5.0]])), torch.tensor([[-s, 0.0, s]]))
    with torch.no_grad():
        norm.weight.copy_(torch.tensor([2.0, 1.0, 1.0]))
        norm.bias.copy_(torch.tensor([0.0, 7.0, 0.0]))
    torch.testing.assert_close(norm(torch.tensor([[1.0, 3.0, 5.0]])), torch.tensor([[-2 * s, 7.0, s]]))


def test_no_shift_where_the_model_has_no_biases() -> None:
    bare = Dims(width=3, heads=1, layers=1, context=5, vocabulary=7, bias=False)
    assert {name: len(one) for name, one in LayerConfig().build(bare).named_parameters()} == {"weight": 3}
