"""Outputs as they are."""

from __future__ import annotations

import torch

from glassformer.model.dims import Dims
from glassformer.model.slots import NoHeadOutput


def test_nothing_changes() -> None:
    z = torch.randn(2, 3, 5, 4)
    assert NoHeadOutput().build(Dims(width=12, heads=3, layers=1, context=7, vocabulary=11))(z, torch.randn(2, 5, 12)) is z
