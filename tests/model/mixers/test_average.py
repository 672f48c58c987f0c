"""Average attention: means by hand, running and with hidden places."""

from __future__ import annotations

import torch

from glassformer.model.attention_context import AttentionContext
from glassformer.model.dims import Dims
from glassformer.model.mixers.average import Average, AverageConfig
from glassformer.model.slots import Positions

DIMS = Dims(width=2, heads=2, layers=1, context=5, vocabulary=7)
X_BTD = torch.tensor([[[6.0, 1.0], [0.0, 3.0], [3.0, 5.0]]])


def identity_values() -> Average:
    mixer = AverageConfig().build(DIMS)
    with torch.no_grad():
        mixer.values.weight.copy_(torch.eye(2))
        mixer.values.bias.zero_()
    return mixer


def mixed(context: AttentionContext) -> list[list[float]]:
    return identity_values()(X_BTD, context, Positions(), None).squeeze(-1).squeeze(0).tolist()


def test_causal_mean_of_what_came_so_far() -> None:
    assert mixed(AttentionContext(causal=True)) == [[6.0, 3.0, 3.0], [1.0, 2.0, 3.0]]


def test_encoder_mean_of_everything() -> None:
    assert mixed(AttentionContext(causal=False)) == [[3.0, 3.0, 3.0], [3.0, 3.0, 3.0]]


def test_hidden_places_count_for_nothing_and_who_sees_nothing_gets_zeros() -> None:
    key_padding_mask_BS = torch.tensor([[True, False, False]])
    assert mixed(AttentionContext(causal=True, key_padding_mask_BS=key_padding_mask_BS)) == [[0.0, 0.0, 1.5], [0.0, 3.0, 4.0]]
