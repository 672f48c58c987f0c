"""The tied head that starts as the unigram model."""

from __future__ import annotations

import torch
from torch import nn

from glassformer.model.dims import Dims
from glassformer.model.heads.frequency import FrequencyConfig

DIMS = Dims(width=3, heads=1, layers=1, context=5, vocabulary=4)


def test_by_hand() -> None:
    """Counts 5, 0, 2, 1 with one more of each: 6, 1, 3, 2 of 12."""
    embedding = nn.Embedding(4, 3)
    head = FrequencyConfig().build(DIMS, embedding)
    assert head.weight is embedding.weight
    head.start_from_counts(torch.tensor([5, 0, 2, 1]))
    probabilities = torch.softmax(head(torch.zeros(1, 1, 3)), dim=-1)
    torch.testing.assert_close(probabilities, torch.tensor([[[6, 1, 3, 2]]]) / 12)


def test_it_starts_at_nothing_and_learns_a_bias() -> None:
    head = FrequencyConfig().build(DIMS, nn.Embedding(4, 3))
    x = torch.randn(2, 5, 3)
    torch.testing.assert_close(head(x), x @ head.weight.T)
    assert head.bias.numel() == 4
    head(x).sum().backward()
    torch.testing.assert_close(head.bias.grad, torch.full((4,), 10.0))
