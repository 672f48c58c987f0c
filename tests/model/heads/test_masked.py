"""BERT's masked head: a linear layer, an activation, a norm, then the embedding's own matrix and a bias."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from glassformer.model.dims import Dims
from glassformer.model.heads.masked import MaskedConfig

DIMS = Dims(width=3, heads=1, layers=1, context=5, vocabulary=7)


@pytest.mark.parametrize(("activation", "function"), [("gelu", F.gelu), ("relu", F.relu)])
def test_by_its_definition(activation: str, function) -> None:
    embedding = nn.Embedding(7, 3)
    head = MaskedConfig(activation=activation, eps=1e-3).build(DIMS, embedding)
    with torch.no_grad():
        for parameter in head.parameters():
            parameter.copy_(torch.randn(parameter.shape))
    x = torch.randn(2, 5, 3)
    inner = F.layer_norm(
        function(F.linear(x, head.dense.weight, head.dense.bias)), (3,), head.norm.weight, head.norm.bias, 1e-3
    )
    torch.testing.assert_close(head(x), F.linear(inner, embedding.weight, head.scores.bias))


def test_its_numbers_without_the_shared_matrix() -> None:
    embedding = nn.Embedding(7, 3)
    head = MaskedConfig().build(DIMS, embedding)
    assert head.scores.weight is embedding.weight
    own = sum(parameter.numel() for parameter in head.parameters()) - embedding.weight.numel()
    assert own == 12 + 6 + 7
