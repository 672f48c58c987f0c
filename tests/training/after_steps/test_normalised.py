"""Normalised weights: which vectors have length one after a step."""

from __future__ import annotations

import pytest
import torch

from glassformer.model.config import ModelConfig
from glassformer.model.transformer import build_model
from glassformer.training.after_steps.normalised import NormalisedConfig


def test_rows_that_read_and_columns_that_write_the_stream_have_length_one() -> None:
    sizes = {
        "width": 12,
        "heads": 3,
        "layers": 1,
        "context": 5,
        "head": "untied",
        "feedforward": {"kind": "experts", "inner": 7},
    }
    model = build_model(ModelConfig.parse(sizes), 11, seed=1)
    gains = model.blocks[0].attention_norm.weight.clone()
    NormalisedConfig().build(model, dict(model.named_parameters()))()
    block = model.blocks[0]
    rows = (model.embedding.weight, block.attention.mixer.qkv.weight, block.feedforward.gate_and_up.weight, model.head.weight)
    columns = block.attention.output.weight, block.feedforward.down.weight
    for weights, axis in ((rows, -1), (columns, -2)):
        for weight in weights:
            length = weight.detach().norm(dim=axis)
            assert torch.allclose(length, torch.ones_like(length), atol=1e-6)
    assert not torch.allclose(columns[0].detach().norm(dim=-1), torch.ones(12), atol=1e-2)  # the other axis is free
    assert torch.equal(block.attention_norm.weight, gains)
    direction = torch.nn.functional.cosine_similarity(build_model(model.config, 11, seed=1).embedding.weight, rows[0], dim=-1)
    assert direction.min().item() == pytest.approx(1.0, abs=1e-6)
