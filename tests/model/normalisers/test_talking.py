"""Heads exchange scores and weights."""

from __future__ import annotations

import torch

from glassformer.model.dims import Dims
from glassformer.model.normalisers.talking import TalkingConfig

DIMS = Dims(width=12, heads=2, layers=1, context=7, vocabulary=11)


def test_by_hand() -> None:
    """Both heads read the first head's scores, then the second's weights are doubled."""
    normaliser = TalkingConfig().build(DIMS)
    with torch.no_grad():
        normaliser.before_HG.copy_(torch.tensor([[1.0, 1.0], [0.0, 0.0]]))
        normaliser.after_HG.copy_(torch.tensor([[1.0, 0.0], [0.0, 2.0]]))
    scores = torch.tensor([[[[0.0, torch.log(torch.tensor(3.0)), 7.0]], [[9.0, 0.0, 0.0]]]])
    pattern = normaliser(scores, torch.tensor([True, True, False]))
    torch.testing.assert_close(pattern[0, :, 0], torch.tensor([[0.25, 0.75, 0.0], [0.5, 1.5, 0.0]]))


def test_the_start_is_softmax() -> None:
    normaliser, scores = TalkingConfig().build(DIMS), torch.randn(3, 2, 4, 5)
    normaliser.init_weights(torch.Generator())
    torch.testing.assert_close(normaliser(scores, None), torch.softmax(scores, dim=-1))
