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
    assert RMSConfig().parameters(DIMS) == 2
