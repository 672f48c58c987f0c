"""Grouped-query attention: shared keys are plain attention with the keys repeated; one head each is plain attention."""

from __future__ import annotations

import pytest
import torch
from tests.refusals import refused

from glassformer.foundation.errors import ConfigError
from glassformer.model.config import ModelConfig
from glassformer.model.transformer import build_model

SIZES = {"width": 24, "heads": 6, "layers": 1, "context": 7, "positions": "rotary"}
V = 11


def ids() -> torch.Tensor:
    return torch.randint(V, (2, 5), generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("kv_heads", [1, 2, 3, 6])
def test_the_same_as_plain_attention_with_the_keys_repeated(kv_heads: int) -> None:
    grouped = build_model(ModelConfig.parse({**SIZES, "mixer": {"kind": "grouped", "kv_heads": kv_heads}}), V, seed=1).double()
    plain = build_model(ModelConfig.parse(SIZES), V, seed=1).double()
    weights = {name: tensor.clone() for name, tensor in grouped.state_dict().items()}
    for name in ("blocks.0.attention.mixer.qkv.weight", "blocks.0.attention.mixer.qkv.bias"):
        query, *shared = weights[name].split([24, 4 * kv_heads, 4 * kv_heads])
        repeated = [part.unflatten(0, (kv_heads, 4)).repeat_interleave(6 // kv_heads, dim=0).flatten(0, 1) for part in shared]
        weights[name] = torch.cat([query, *repeated])
    plain.load_state_dict(weights)
    torch.testing.assert_close(grouped(ids()), plain(ids()), atol=1e-12, rtol=0)


def test_fewer_rows_for_shared_heads() -> None:
    model = build_model(ModelConfig.parse({**SIZES, "mixer": {"kind": "grouped", "kv_heads": 2}}), V, seed=1)
    assert model.blocks[0].attention.mixer.qkv.weight.shape == (24 + 2 * 2 * 4, 24)


def test_biases_of_its_own() -> None:
    model = build_model(ModelConfig.parse({**SIZES, "bias": False, "mixer": {"kind": "grouped", "bias": True}}), V, seed=1)
    assert model.blocks[0].attention.mixer.qkv.bias is not None
    assert model.blocks[0].attention.output.bias is None


def test_heads_that_do_not_divide_are_refused() -> None:
    with refused(ConfigError, "bad-value", "model.mixer.kv_heads=4", "model.heads=6"):
        ModelConfig.parse({**SIZES, "mixer": {"kind": "grouped", "kv_heads": 4}})
