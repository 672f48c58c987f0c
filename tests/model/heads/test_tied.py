"""The tied head: the embedding's own matrix, counted once."""

from __future__ import annotations

import torch
from torch import nn

from glassformer.model.dims import Dims
from glassformer.model.heads.tied import TiedConfig
from glassformer.model.losses import is_one_product

DIMS = Dims(width=3, heads=1, layers=1, context=5, vocabulary=2)


def test_by_hand() -> None:
    embedding = nn.Embedding(2, 3)
    with torch.no_grad():
        embedding.weight.copy_(torch.tensor([[1.0, 0.0, 2.0], [0.0, -1.0, 1.0]]))
    head = TiedConfig().build(DIMS, embedding)
    assert head.weight is embedding.weight
    torch.testing.assert_close(head(torch.tensor([[[1.0, 2.0, 3.0]]])), torch.tensor([[[7.0, 1.0]]]))
    assert [one is embedding.weight for one in head.parameters()] == [True]
    scaled = TiedConfig(scale="inverse-sqrt").build(DIMS, embedding)
    torch.testing.assert_close(scaled(torch.tensor([[[1.0, 2.0, 3.0]]])), torch.tensor([[[7.0, 1.0]]]) / 3**0.5)
    assert not is_one_product(scaled)  # a kernel of the product alone would leave the scale out
