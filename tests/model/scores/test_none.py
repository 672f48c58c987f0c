"""Scores as they are."""

from __future__ import annotations

import torch

from glassformer.model.dims import Dims
from glassformer.model.slots import NoScoreMap


def test_nothing_changes() -> None:
    scores = torch.randn(2, 3, 5, 5)
    assert NoScoreMap().build(Dims(width=12, heads=3, layers=1, context=7, vocabulary=11))(scores) is scores
