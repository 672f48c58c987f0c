"""The head with a matrix of its own, with and without a bias."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from glassformer.model.dims import Dims
from glassformer.model.heads.untied import UntiedConfig

DIMS = Dims(width=3, heads=1, layers=1, context=5, vocabulary=7)


@pytest.mark.parametrize(("bias", "count"), [(False, 21), (True, 28)])
def test_its_own_matrix(bias: bool, count: int) -> None:
    embedding = nn.Embedding(7, 3)
    head = UntiedConfig(bias=bias).build(DIMS, embedding)
    assert head.weight is not embedding.weight
    assert sum(p.numel() for p in head.parameters()) == count
    assert head(torch.randn(2, 5, 3)).shape == (2, 5, 7)
