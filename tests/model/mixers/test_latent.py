"""Latent attention: keys and values come from a short vector, and the cache holds no more than that."""

from __future__ import annotations

import torch

from glassformer.model.attention import attend, split_heads
from glassformer.model.attention_context import AttentionContext
from glassformer.model.config import ModelConfig
from glassformer.model.dims import Dims
from glassformer.model.mixers.latent import LatentConfig
from glassformer.model.positions.rotary import RotaryConfig
from glassformer.model.transformer import build_model

DIMS = Dims(width=12, heads=3, layers=1, context=7, vocabulary=11)


def test_by_the_equations(rng) -> None:
    mixer, rotary = LatentConfig(rank=5).build(DIMS).double(), RotaryConfig().build(DIMS).double()
    x_BTD, place = torch.randn(2, 6, 12, generator=rng).double(), torch.arange(6).unsqueeze(0)
    q, turned = (split_heads(part, 3) for part in mixer.queries(x_BTD).chunk(2, dim=-1))
    latent, shared = mixer.down(x_BTD)[..., :5], mixer.down(x_BTD)[..., 5:]
    k, v = (split_heads(part, 3) for part in mixer.up(mixer.latent_norm(latent)).chunk(2, dim=-1))
    shared = rotary.rotate(shared.unsqueeze(1), place).expand(2, 3, 6, 4)
    q, k = torch.cat([q, rotary.rotate(turned, place)], dim=-1), torch.cat([k, shared], dim=-1)
    expected = attend(q, k, v, torch.ones(6, 6, dtype=torch.bool).tril(), scale=8**-0.5)
    torch.testing.assert_close(mixer(x_BTD, AttentionContext(causal=True), rotary, None), expected)


def test_the_cache_is_as_small_as_it_says() -> None:
    config = ModelConfig.parse({"width": 12, "heads": 3, "layers": 2, "context": 7, "mixer": {"kind": "latent", "rank": 5}})
    model = build_model(config, 11, seed=1).eval()
    cache = model.new_cache(rows=2)
    cache.place_whole(slice(0, 2))
    model(torch.zeros(2, 4, dtype=torch.long), cache=cache)
    held = sum(buffer.numel() for layer in cache.layers for buffer in layer._buffers.values())
    assert held == 2 * 2 * 7 * (5 + 4)  # layers, rows, positions
    assert model.cache_bytes(rows=2, capacity=7) == 4 * held
