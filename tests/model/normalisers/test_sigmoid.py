"""Sigmoid attention by hand."""

from __future__ import annotations

import math

import torch

from glassformer.model.dims import Dims
from glassformer.model.normalisers.sigmoid import SigmoidConfig

DIMS = Dims(width=12, heads=2, layers=1, context=7, vocabulary=11)


def test_by_hand() -> None:
    """sigmoid(s - log n) = 1 / (1 + n exp(-s)), n the visible keys."""
    scores, mask = torch.tensor([[0.0, math.log(4), 9.0], [0.0, 1.0, 2.0]]), torch.tensor([[True, True, False], [False] * 3])
    pattern = SigmoidConfig().build(DIMS)(scores, mask)
    torch.testing.assert_close(pattern, torch.tensor([[1 / 3, 1 / 1.5, 0.0], [0.0, 0.0, 0.0]]))
    torch.testing.assert_close(SigmoidConfig().build(DIMS)(torch.zeros(1, 4), None), torch.full((1, 4), 0.2))
