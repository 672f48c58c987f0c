"""Rotary positions: a turn by hand, lengths kept, scores that know only distances."""

from __future__ import annotations

import math

import torch
from tests.refusals import refused

from glassformer.foundation.errors import ConfigError
from glassformer.model.config import ModelConfig
from glassformer.model.dims import Dims
from glassformer.model.positions.rotary import Rotary, RotaryConfig

DIMS = Dims(width=12, heads=3, layers=1, context=11, vocabulary=7)


def built() -> Rotary:
    return RotaryConfig(base=100.0).build(DIMS).double()


def test_turn_by_hand() -> None:
    """Pairs are (0, 2) and (1, 3); at place 3 the first turns by 3 and the second by 3/10 radians."""
    x_BHTE = torch.tensor([1.0, 1.0, 0.0, 0.0]).double().reshape(1, 1, 1, 4)
    turned = built().rotate(x_BHTE, torch.tensor([[3]])).flatten()
    expected = [math.cos(3), math.cos(0.3), math.sin(3), math.sin(0.3)]
    torch.testing.assert_close(turned, torch.tensor(expected).double(), rtol=0, atol=1e-7)


def test_keeps_lengths_and_scores_depend_on_the_distance_alone() -> None:
    x, y = torch.randn(2, 1, 3, 1, 4).double()
    rotary = built()
    scores = [
        (rotary.rotate(x, torch.tensor([[t]])) * rotary.rotate(y, torch.tensor([[s]]))).sum(-1) for t, s in ((4, 1), (10, 7))
    ]
    torch.testing.assert_close(scores[0], scores[1], rtol=0, atol=1e-6)  # the table itself is float32
    torch.testing.assert_close(rotary.rotate(x, torch.tensor([[9]])).norm(), x.norm(), rtol=1e-6, atol=0)


def test_odd_heads_are_refused_with_the_reason() -> None:
    with refused(ConfigError, "bad-value", "rotary", "head of 3"):
        ModelConfig.parse({"width": 9, "heads": 3, "positions": "rotary"})
