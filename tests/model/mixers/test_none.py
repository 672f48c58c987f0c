"""No mixing: every token keeps its own vector."""

from __future__ import annotations

import torch

from glassformer.model.attention_context import AttentionContext
from glassformer.model.dims import Dims
from glassformer.model.mixers.none import NoneConfig
from glassformer.model.slots import Positions


def test_heads_are_stretches_of_the_vector_itself() -> None:
    mixer = NoneConfig().build(Dims(width=6, heads=2, layers=1, context=5, vocabulary=7))
    x_BTD = torch.arange(24.0).reshape(1, 4, 6)
    z_BHTE = mixer(x_BTD, AttentionContext(causal=True), Positions(), None)
    assert z_BHTE.shape == (1, 2, 4, 3)
    assert z_BHTE[0, 1, 2].tolist() == [15.0, 16.0, 17.0]
    assert list(mixer.parameters()) == []
