"""The quadratic form of linear attention is its recurrence."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from glassformer.model.attention import split_heads
from glassformer.model.attention_context import AttentionContext
from glassformer.model.dims import Dims
from glassformer.model.mixers.linear import LinearConfig
from glassformer.model.slots import Positions

DIMS = Dims(width=12, heads=3, layers=1, context=7, vocabulary=11)


def test_running_sums_give_the_same(rng) -> None:
    mixer, x_BTD = LinearConfig().build(DIMS).double(), torch.randn(2, 5, 12, generator=rng).double()
    q, k, v = (split_heads(part, 3) for part in mixer.qkv(x_BTD).chunk(3, dim=-1))
    q, k = F.elu(q) + 1, F.elu(k) + 1
    state, total, expected = torch.zeros(2, 3, 4, 4).double(), torch.zeros(2, 3, 4).double(), []
    for t in range(5):
        state = state + k[:, :, t, :, None] * v[:, :, t, None, :]
        total = total + k[:, :, t]
        top = (q[:, :, t, None, :] @ state).squeeze(2)
        expected.append(top / (q[:, :, t] * total).sum(-1, keepdim=True))
    found = mixer(x_BTD, AttentionContext(causal=True), Positions(), None)
    torch.testing.assert_close(found, torch.stack(expected, dim=2))
