"""Persistent memory: keys and values that are always there."""

from __future__ import annotations

import torch

from glassformer.model.attention_context import AttentionContext
from glassformer.model.dims import Dims
from glassformer.model.mixers.persistent import PersistentConfig
from glassformer.model.slots import Positions

DIMS = Dims(width=2, heads=1, layers=1, context=7, vocabulary=11, bias=False)


def test_by_hand() -> None:
    """Equal scores: the mean of the values so far and of two remembered ones."""
    mixer = PersistentConfig(slots=2).build(DIMS)
    with torch.no_grad():
        mixer.qkv.weight.copy_(torch.tensor([[0.0, 0], [0, 0], [0, 0], [0, 0], [1, 0], [0, 1]]))
        mixer.memory_keys_HSE.normal_()
        mixer.memory_values_HSE.copy_(torch.tensor([[[3.0, 0.0], [0.0, 6.0]]]))
    z_BHTE = mixer(torch.tensor([[[3.0, 3.0], [2.0, 3.0]]]), AttentionContext(causal=True), Positions(), None)
    torch.testing.assert_close(z_BHTE[0, 0], torch.tensor([[2.0, 3.0], [2.0, 3.0]]))


def test_who_looks_sees_the_tokens() -> None:
    mixer, seen = PersistentConfig(slots=3).build(DIMS), []
    mixer.init_weights(torch.Generator())
    mixer.pattern.register_forward_hook(lambda module, inputs, output: seen.append(output))
    mixer(torch.randn(2, 4, 2), AttentionContext(causal=True), Positions(), None)
    assert seen[0].shape == (2, 1, 4, 4)
    assert (seen[0].sum(-1) < 1).all()
