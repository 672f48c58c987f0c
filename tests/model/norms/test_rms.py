"""Root-mean-square normalisation: by hand."""

from __future__ import annotations

import torch

from glassformer.model.dims import Dims
from glassformer.model.norms.rms import RMSConfig

DIMS = Dims(width=2, heads=1, layers=1, context=5, vocabulary=7)


def test_by_hand() -> None:
    # the mean square of (1, 7) is 25
    norm = RMSConfig().build(DIMS)
    torch.testing.assert_close(norm(torch.tensor([[1.0, 7.0]])), torch.tensor([[0.2, 1.4]]))
    with torch.no_grad():
        norm.weight.copy_(torch.tensor([5.0, 1.0]))
    torch.testing.assert_close(norm(torch.tensor([[1.0, 7.0]])), torch.tensor([[1.0, 1.4]]))
    assert [len(one) for one in norm.parameters()] == [2]


def test_a_scale_of_one_plus_the_weight_and_none() -> None:
    x_BTD = torch.randn(2, 3, DIMS.width, generator=torch.Generator().manual_seed(1))
    plain = RMSConfig().build(DIMS)
    offset, bare = RMSConfig(scale="offset").build(DIMS), RMSConfig(scale="none").build(DIMS)
    torch.testing.assert_close(offset(x_BTD), plain(x_BTD))
    torch.testing.assert_close(bare(x_BTD), plain(x_BTD).detach())
    offset.weight.data.fill_(0.5)
    torch.testing.assert_close(offset(x_BTD).detach(), 1.5 * bare(x_BTD))
