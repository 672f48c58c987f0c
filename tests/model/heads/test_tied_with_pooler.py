"""The tied head beside BERT's pooler: scores do not depend on the pooler, which reads the first token alone."""

from __future__ import annotations

import torch
from torch import nn

from glassformer.model.dims import Dims
from glassformer.model.heads.tied_with_pooler import PooledConfig

DIMS = Dims(width=3, heads=1, layers=1, context=5, vocabulary=7)


def test_scores_and_the_pooled_vector() -> None:
    embedding = nn.Embedding(7, 3)
    head = PooledConfig().build(DIMS, embedding)
    x = torch.randn(2, 5, 3)
    torch.testing.assert_close(head(x), x @ embedding.weight.T)
    expected = torch.tanh(x[:, 0] @ head.pooler.weight.T + head.pooler.bias)
    torch.testing.assert_close(head.pooled(x), expected)
    changed = x.clone()
    changed[:, 1:] += 1.0
    torch.testing.assert_close(head.pooled(changed), expected, rtol=0, atol=0)
    assert sum(one.numel() for one in head.pooler.parameters()) == 12
