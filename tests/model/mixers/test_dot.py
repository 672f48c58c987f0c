"""Dot-product attention: one row by hand, and where the bias and rotation of positions enter."""

from __future__ import annotations

import math

import torch

from glassformer.model.dims import Dims
from glassformer.model.mixers.dot import Dot, DotConfig
from glassformer.model.positions.alibi import AlibiConfig
from glassformer.model.scene import Scene
from glassformer.model.slots import Positions

DIMS = Dims(width=2, heads=1, layers=1, context=5, vocabulary=7, bias=False)


def identity_maps(*, fused: bool) -> Dot:
    """Queries, keys and values are the vectors themselves."""
    mixer = DotConfig(fused=fused).build(DIMS)
    with torch.no_grad():
        mixer.qkv.weight.copy_(torch.eye(2).repeat(3, 1))
    return mixer


def test_second_token_by_hand() -> None:
    """Scores 0 and 1/sqrt(2): weights 1/(1+r) and r/(1+r) with r = exp(1/sqrt 2)."""
    x_BTD = torch.tensor([[[1.0, 0.0], [0.0, 1.0]]])
    ratio = math.exp(1 / math.sqrt(2))
    for fused in (False, True):
        z_BHTE = identity_maps(fused=fused)(x_BTD, Scene(causal=True), Positions(), None)
        expected = torch.tensor([[1.0, 0.0], [1 / (1 + ratio), ratio / (1 + ratio)]])
        torch.testing.assert_close(z_BHTE[0, 0], expected)


def test_bias_of_positions_is_added_to_scores() -> None:
    """Slope ln 3 and equal scores: the token before weighs a third of one's own."""
    x_BTD = torch.zeros(1, 2, 2)
    x_BTD[0, 0, 0] = 1.0
    positions = AlibiConfig(slope=math.log(3)).build(DIMS)
    for fused in (False, True):
        z_BHTE = identity_maps(fused=fused)(x_BTD, Scene(causal=True), positions, None)
        torch.testing.assert_close(z_BHTE[0, 0, 1], torch.tensor([0.25, 0.0]))
