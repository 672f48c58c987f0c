"""Forgetting attention: gates of one are softmax attention, a gate of zero hides what came before."""

from __future__ import annotations

import torch

from glassformer.model.attention_context import AttentionContext
from glassformer.model.dims import Dims
from glassformer.model.mixers.dot import DotConfig
from glassformer.model.mixers.forgetting import ForgettingConfig, running_sum
from glassformer.model.slots import Positions

B, T, D, H = 2, 5, 12, 3
DIMS = Dims(width=D, heads=H, layers=1, context=7, vocabulary=11)
CONTEXT = AttentionContext(causal=True)


def test_running_sum() -> None:
    assert running_sum(torch.tensor([1.0, 2.0, 4.0]).view(1, 1, 3, 1)).flatten().tolist() == [1, 3, 7]


def test_open_gates_are_plain_attention(rng) -> None:
    mixer, plain = ForgettingConfig().build(DIMS), DotConfig().build(DIMS)
    plain.qkv.load_state_dict(mixer.qkv.state_dict())
    torch.nn.init.zeros_(mixer.forget.weight)
    torch.nn.init.constant_(mixer.forget.bias, 30.0)
    x_BTD = torch.randn(B, T, D, generator=rng)
    torch.testing.assert_close(mixer(x_BTD, CONTEXT, Positions(), None), plain(x_BTD, CONTEXT, Positions(), None))


def test_by_hand() -> None:
    """Equal scores and gates of 1/2: a key counts half as much for every token after it."""
    mixer, seen = ForgettingConfig().build(DIMS), []
    for layer in (mixer.qkv, mixer.forget):
        torch.nn.init.zeros_(layer.weight)
        torch.nn.init.zeros_(layer.bias)
    mixer.pattern.register_forward_hook(lambda module, inputs, output: seen.append(output))
    mixer(torch.randn(1, 3, D), CONTEXT, Positions(), None)
    torch.testing.assert_close(seen[0][0, 0, 2], torch.tensor([1.0, 2.0, 4.0]) / 7)
