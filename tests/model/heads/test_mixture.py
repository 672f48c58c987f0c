"""A mixture of softmaxes by hand, and soft-capped scores."""

from __future__ import annotations

import torch

from glassformer.model.dims import Dims
from glassformer.model.heads.mixture import MixtureConfig
from glassformer.model.heads.tied import TiedConfig

DIMS = Dims(width=3, heads=1, layers=1, context=5, vocabulary=4)


def test_it_is_the_mixture_of_the_softmaxes() -> None:
    torch.manual_seed(0)
    embedding = torch.nn.Embedding(4, 3)
    head, x_BTD = MixtureConfig(parts=2).build(DIMS, embedding), torch.randn(2, 5, 3)
    shares = head.shares(x_BTD).softmax(-1)
    parts = [torch.softmax(torch.tanh(each) @ embedding.weight.T, -1) for each in head.maps(x_BTD).split(3, dim=-1)]
    expected = shares[..., :1] * parts[0] + shares[..., 1:] * parts[1]
    torch.testing.assert_close(head(x_BTD).exp(), expected)
    torch.testing.assert_close(head(x_BTD).softmax(-1), expected)


def test_capped_scores() -> None:
    embedding, x_BTD = torch.nn.Embedding(4, 3), 50 * torch.randn(2, 5, 3)
    capped, plain = TiedConfig(softcap=5.0).build(DIMS, embedding), TiedConfig().build(DIMS, embedding)
    torch.testing.assert_close(capped(x_BTD), 5 * torch.tanh(plain(x_BTD) / 5))
    assert float(capped(x_BTD).detach().abs().max()) <= 5.0
