"""Differential attention: what both patterns attend to cancels; the share starts by depth."""

from __future__ import annotations

import math
from dataclasses import replace

import torch
from tests.refusals import refused

from glassformer.foundation.errors import ConfigError
from glassformer.model.attention_context import AttentionContext
from glassformer.model.config import ModelConfig
from glassformer.model.dims import Dims
from glassformer.model.mixers.differential import DifferentialConfig
from glassformer.model.slots import Positions
from glassformer.model.transformer import build_model

DIMS = Dims(width=12, heads=3, layers=3, context=7, vocabulary=11)


def test_the_share_starts_by_depth() -> None:
    for layer, expected in ((0, 0.2), (2, 0.8 - 0.6 * math.exp(-0.6))):
        mixer = DifferentialConfig().build(replace(DIMS, layer=layer))
        torch.nn.init.zeros_(mixer.lambda_4E)
        torch.testing.assert_close(mixer.share, torch.tensor(expected))
    model = build_model(ModelConfig(width=12, heads=3, layers=3, context=7, mixer="differential"), 11, seed=1)
    assert [round(block.attention.mixer.start, 3) for block in model.blocks] == [0.2, 0.356, 0.471]


def test_weights_sum_to_one_less_the_share(rng) -> None:
    mixer, seen = DifferentialConfig().build(DIMS), []
    mixer.init_weights(rng)
    mixer.pattern.register_forward_hook(lambda module, inputs, output: seen.append(output))
    z_BHTE = mixer(torch.randn(2, 5, 12, generator=rng), AttentionContext(causal=True), Positions(), None)
    torch.testing.assert_close(seen[0].sum(-1), (1 - mixer.share).expand(2, 3, 5))
    torch.testing.assert_close(z_BHTE.square().mean(-1), torch.full((2, 3, 5), 0.64), atol=1e-2, rtol=0)  # (1 - 0.2)^2


def test_heads_that_cannot_be_halved_are_refused() -> None:
    with refused(ConfigError, "bad-value", "multiple of 4"):
        ModelConfig.parse({"width": 12, "heads": 2, "mixer": "differential"})
