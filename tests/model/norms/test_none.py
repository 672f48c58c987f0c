"""No normalisation: nothing happens, nothing is trained."""

from __future__ import annotations

import torch

from glassformer.model.dims import Dims
from glassformer.model.slots import NoNorm

DIMS = Dims(width=3, heads=1, layers=1, context=5, vocabulary=7)


def test_nothing_happens() -> None:
    x = torch.randn(2, 5, 3)
    norm = NoNorm().build(DIMS)
    assert norm(x) is x
    assert not list(norm.parameters())
