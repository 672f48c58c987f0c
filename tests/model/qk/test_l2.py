"""Scores are cosines times a factor."""

from __future__ import annotations

import math

import torch

from glassformer.model.config import ModelConfig
from glassformer.model.dims import Dims
from glassformer.model.qk.l2 import L2Config
from glassformer.model.transformer import build_model

DIMS = Dims(width=4, heads=2, layers=1, context=8, vocabulary=11)


def test_by_hand() -> None:
    q, k = torch.tensor([[[[3.0, 4.0]], [[0.0, 2.0]]]]), torch.tensor([[[[0.0, 7.0]], [[1.0, 1.0]]]])
    turned_q, turned_k = L2Config(learned=False).build(DIMS)(q, k)
    g = math.log2(8 * 7)
    torch.testing.assert_close((turned_q * turned_k).sum(-1).flatten(), torch.tensor([0.8 * g, g / math.sqrt(2)]))


def test_the_length_of_queries_and_keys_does_not_matter_and_the_products_are_not_scaled_again() -> None:
    model = build_model(ModelConfig(width=12, heads=3, layers=1, context=8, mixer={"kind": "dot", "qk": "l2"}), 11, seed=1)
    mixer = model.blocks[0].attention.mixer
    assert mixer.scale == 1.0
    torch.testing.assert_close(mixer.qk.factor_H, torch.full((3,), math.log2(56)))
    ids = torch.arange(7).unsqueeze(0)
    before = model(ids)
    with torch.no_grad():
        mixer.qkv.weight[:24] *= 3.0
    torch.testing.assert_close(model(ids), before)


def test_a_factor_that_is_not_trained_stays_what_it_was_with_a_longer_context() -> None:
    mixer = {"kind": "dot", "qk": {"kind": "l2", "learned": False}}
    short, longer = (
        build_model(ModelConfig(width=12, heads=3, layers=1, context=context, mixer=mixer, positions="none"), 11, seed=1)
        for context in (8, 32)
    )
    longer.load_state_dict(short.state_dict())
    ids = torch.arange(7).unsqueeze(0)
    torch.testing.assert_close(longer(ids), short(ids))
