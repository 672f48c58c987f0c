"""Soft-capped scores by hand; biases of positions come after the cap."""

from __future__ import annotations

import math

import torch

from glassformer.model.attention_context import AttentionContext
from glassformer.model.dims import Dims
from glassformer.model.mixers.dot import DotConfig
from glassformer.model.positions.alibi import AlibiConfig
from glassformer.model.scores.softcap import SoftcapConfig

DIMS = Dims(width=2, heads=1, layers=1, context=5, vocabulary=7, bias=False)


def test_by_hand() -> None:
    capped = SoftcapConfig(cap=2.0).build(DIMS)(torch.tensor([0.0, 2.0, -1000.0]))
    torch.testing.assert_close(capped, torch.tensor([0.0, 2 * math.tanh(1.0), -2.0]))


def test_in_attention_before_the_bias() -> None:
    """Two keys whose scores are both capped at 1: the slope of ln 3 alone decides."""
    mixer = DotConfig(scores={"kind": "softcap", "cap": 1.0}, scale=1.0).build(DIMS)
    with torch.no_grad():
        mixer.qkv.weight.copy_(torch.tensor([[100.0, 0], [0, 0], [100, 0], [0, 0], [0, 1], [0, 0]]))
    x_BTD = torch.tensor([[[1.0, 1.0], [2.0, 0.0]]])
    positions = AlibiConfig(slope=math.log(3)).build(DIMS)
    z_BHTE = mixer(x_BTD, AttentionContext(causal=True), positions, None)
    torch.testing.assert_close(z_BHTE[0, 0, 1, 0], torch.tensor(0.25))
