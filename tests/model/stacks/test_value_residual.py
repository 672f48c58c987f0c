"""Value residual: each layer's values mixed with the first layer's."""

from __future__ import annotations

from typing import Any

import torch
from tests.refusals import refused

from glassformer.foundation.errors import ConfigError
from glassformer.model.config import ModelConfig
from glassformer.model.transformer import build_model

SIZES: dict[str, Any] = {"width": 12, "heads": 3, "layers": 3, "context": 7}


def test_the_values_that_attention_sees() -> None:
    model = build_model(ModelConfig.parse({**SIZES, "stack": "value_residual"}), 11, seed=1).eval()
    model.stack.shares.data[:] = torch.tensor([0.25, 1.0])
    seen: list[torch.Tensor] = []
    own: list[torch.Tensor] = []
    for block in model.blocks:
        block.attention.mixer.value.register_forward_hook(lambda tap, inputs, output: seen.append(output))
        block.attention.mixer.qkv.register_forward_hook(lambda tap, inputs, output: own.append(output[..., 24:]))
    model(torch.arange(5).unsqueeze(0))
    values = [each.unflatten(-1, (3, 4)).transpose(1, 2) for each in own]
    torch.testing.assert_close(seen[0], values[0])
    torch.testing.assert_close(seen[1], 0.75 * values[1] + 0.25 * values[0])
    torch.testing.assert_close(seen[2], values[0])


def test_mixers_without_values_of_their_own_are_refused() -> None:
    for mixer in ("none", ["dot", {"kind": "dot", "kv_heads": 1}]):
        with refused(ConfigError, "bad-value", "model.stack=value_residual"):
            ModelConfig.parse({**SIZES, "mixer": mixer, "stack": "value_residual"})
