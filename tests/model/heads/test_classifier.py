"""The classifier head by hand: the mean without padding, the first vector, hidden layers."""

from __future__ import annotations

import torch

from glassformer.model.dims import Dims
from glassformer.model.heads.classifier import ClassifierConfig, pool

DIMS = Dims(width=4, heads=2, layers=1, context=5, vocabulary=11, causal=False, outputs=3)


def test_the_mean_leaves_padding_out() -> None:
    x = torch.tensor([[[1.0, 2.0], [3.0, 4.0], [100.0, 100.0]], [[5.0, 6.0], [7.0, 8.0], [9.0, 10.0]]])
    hidden = torch.tensor([[False, False, True], [False, False, False]])
    assert pool(x, hidden, "mean").tolist() == [[2.0, 3.0], [7.0, 8.0]]
    assert pool(x, None, "mean")[1].tolist() == [7.0, 8.0]
    assert pool(x, hidden, "first").tolist() == [[1.0, 2.0], [5.0, 6.0]]


def test_a_row_of_nothing_but_padding_gives_zeros_and_not_nan() -> None:
    assert pool(torch.ones(1, 2, 3), torch.ones(1, 2, dtype=torch.bool), "mean").tolist() == [[0.0, 0.0, 0.0]]


def test_layers_by_hand() -> None:
    head = ClassifierConfig(hidden=[2]).build(DIMS, torch.nn.Embedding(11, 4)).eval()
    x = torch.randn(2, 5, 4)
    first, last = head.layers
    torch.testing.assert_close(head(x), last(torch.relu(first(x.mean(dim=1)))))
    assert head(x).shape == (2, 3)


def test_the_sizes_of_the_published_classifier() -> None:
    published = Dims(width=64, heads=2, layers=4, context=32, vocabulary=5755, causal=False, outputs=3)
    head = ClassifierConfig(hidden=[100]).build(published, torch.nn.Embedding(1, 1))
    assert sum(one.numel() for one in head.parameters()) == 6803
