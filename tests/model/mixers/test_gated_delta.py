"""The quadratic form of the gated delta rule is its recurrence."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from glassformer.model.attention import split_heads
from glassformer.model.attention_context import AttentionContext
from glassformer.model.dims import Dims
from glassformer.model.mixers.gated_delta import GatedDeltaConfig
from glassformer.model.slots import Positions

DIMS = Dims(width=12, heads=3, layers=1, context=7, vocabulary=11)


def recurrence(mixer, x_BTD: torch.Tensor) -> torch.Tensor:
    """S = a S (I - b k k') + b v k', token by token."""
    q, k, v = (split_heads(part, 3) for part in mixer.qkv(x_BTD).chunk(3, dim=-1))
    q, k = F.normalize(q, dim=-1), F.normalize(k, dim=-1)
    rates = split_heads(mixer.rates(x_BTD), 3)
    fade, write = torch.sigmoid(rates[..., :1]) ** (1 / 16), torch.sigmoid(rates[..., 1:])
    state, outputs = torch.zeros(len(x_BTD), 3, 4, 4, dtype=x_BTD.dtype), []
    for t in range(x_BTD.shape[1]):
        key, value = k[:, :, t, :, None], v[:, :, t, :, None]
        a, b = fade[:, :, t, :, None], write[:, :, t, :, None]
        state = a * state @ (torch.eye(4) - b * key @ key.transpose(-1, -2)) + b * value @ key.transpose(-1, -2)
        outputs.append((state @ q[:, :, t, :, None]).squeeze(-1))
    z = F.rms_norm(torch.stack(outputs, dim=2), (4,), eps=1e-6)
    return z * F.silu(split_heads(mixer.gate(x_BTD), 3))


def test_the_recurrence_gives_the_same(rng) -> None:
    mixer, x_BTD = GatedDeltaConfig().build(DIMS).double(), 3 * torch.randn(2, 6, 12, generator=rng).double()
    found = mixer(x_BTD, AttentionContext(causal=True), Positions(), None)
    torch.testing.assert_close(found, recurrence(mixer, x_BTD), atol=1e-10, rtol=1e-8)


def test_a_key_seen_again_takes_its_new_value() -> None:
    """With b = 1 and no fading, the second value of a key replaces the first; a plain sum would hold both."""
    u = (
        GatedDeltaConfig()
        .build(DIMS)
        .corrected(
            torch.tensor([[1.0, 0.0], [1.0, 0.0]]).view(1, 1, 2, 2),
            torch.tensor([[5.0, 1.0], [7.0, 2.0]]).view(1, 1, 2, 2),
            torch.ones(1, 1, 2, 1),
            torch.zeros(1, 1, 2, 1),
            AttentionContext(causal=True),
        )
    )
    torch.testing.assert_close(u.sum(dim=2).flatten(), torch.tensor([7.0, 2.0]))
