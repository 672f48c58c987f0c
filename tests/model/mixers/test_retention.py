"""The parallel form of retention is its recurrence."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from glassformer.model.attention import split_heads
from glassformer.model.attention_context import AttentionContext
from glassformer.model.dims import Dims
from glassformer.model.mixers.retention import RetentionConfig
from glassformer.model.slots import Positions

DIMS = Dims(width=12, heads=3, layers=1, context=7, vocabulary=11)


def test_the_recurrence_gives_the_same(rng) -> None:
    mixer, x_BTD = RetentionConfig().build(DIMS).double(), torch.randn(2, 5, 12, generator=rng).double()
    q, k, v = (split_heads(part, 3) for part in mixer.qkv(x_BTD).chunk(3, dim=-1))
    fade = (1 - 2.0 ** -(5 + torch.arange(3).double())).view(1, 3, 1, 1)
    state, expected = torch.zeros(2, 3, 4, 4).double(), []
    for t in range(5):
        state = fade * state + k[:, :, t, :, None] * v[:, :, t, None, :]
        expected.append((q[:, :, t, None, :] / 2 @ state).squeeze(2))
    normed = F.rms_norm(torch.stack(expected, dim=2), (4,), eps=1e-6)
    gated = normed * F.silu(split_heads(mixer.gate(x_BTD), 3))
    found = mixer(x_BTD, AttentionContext(causal=True), Positions(), None)
    torch.testing.assert_close(found, gated, atol=1e-6, rtol=1e-6)  # the fading is a table in float32
