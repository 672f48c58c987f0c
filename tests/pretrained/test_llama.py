"""Llama's settings as ours and back; the forms of older and newer config files."""

from __future__ import annotations

from typing import Any

import pytest

from glassformer.data.tokenizers.byte import ByteTokenizer
from glassformer.model.config import ModelConfig
from glassformer.pretrained.architecture import Settings
from glassformer.pretrained.llama import Llama

SMALL = {"hidden_size": 24, "num_attention_heads": 6, "num_hidden_layers": 2, "intermediate_size": 40}


def read(**more: Any) -> ModelConfig:
    return ModelConfig.parse(Llama().read(Settings({**SMALL, **more}, "config.json"), set()))


@pytest.mark.parametrize(
    "more", [{"rope_theta": 500.0}, {"rope_parameters": {"rope_type": "default", "rope_theta": 500.0}, "rope_scaling": None}]
)
def test_the_base_of_the_rotation(more: dict[str, Any]) -> None:
    assert read(**more).positions.base == 500.0  # type: ignore[attr-defined]


def test_the_mixer_is_plain_where_nothing_is_shared() -> None:
    assert read().mixer.kind == "dot"
    assert read(num_key_value_heads=2).mixer.non_defaults() == {"kind": "grouped", "kv_heads": 2}
    assert read(model_type="qwen2").mixer.non_defaults() == {"kind": "grouped", "kv_heads": 6, "bias": True}


def test_a_window_as_long_as_the_context_is_none() -> None:
    assert read(max_position_embeddings=64, sliding_window=64).context == 64
    assert read(max_position_embeddings=64, sliding_window=8, use_sliding_window=False).context == 64


@pytest.mark.parametrize("mixer", ["dot", {"kind": "grouped", "kv_heads": 2}, {"kind": "grouped", "kv_heads": 3, "bias": True}])
def test_there_and_back(mixer: Any) -> None:
    values = {"width": 24, "heads": 6, "layers": 2, "context": 7, "bias": False, "mixer": mixer, "head": "untied"}
    values |= {"positions": {"kind": "rotary", "base": 77.0}, "norm": "rms", "feedforward": {"kind": "gated", "inner": 5}}
    config = ModelConfig.parse(values)
    written = Llama().write(config, config.dims(256), ByteTokenizer())
    assert ModelConfig.parse(Llama().read(Settings(written, "config.json"), set())) == config
