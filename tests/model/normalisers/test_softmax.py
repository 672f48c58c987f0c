"""Softmax is what the fused kernel does."""

from __future__ import annotations

import torch

from glassformer.model.dims import Dims
from glassformer.model.mixers.dot import DotConfig
from glassformer.model.normalisers.softmax import SoftmaxConfig

DIMS = Dims(width=12, heads=3, layers=1, context=7, vocabulary=11)


def test_softmax_and_the_fast_path() -> None:
    scores = torch.tensor([[[[0.0, torch.log(torch.tensor(3.0)), 9.0]]]])
    mask = torch.tensor([True, True, False])
    torch.testing.assert_close(SoftmaxConfig().build(DIMS)(scores, mask), torch.tensor([[[[0.25, 0.75, 0.0]]]]))
    assert DotConfig(normaliser="softmax").build(DIMS).takes_fast_path
    assert not DotConfig(normaliser="sink").build(DIMS).takes_fast_path
