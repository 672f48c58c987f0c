"""Tables of published models: settings as ours and back, older files, windows by layer, layouts of tensors, refusals."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tests.refusals import refused

from glassformer.data.tokenizers.byte import ByteTokenizer
from glassformer.foundation.errors import DataError
from glassformer.model.accounting import parts_of
from glassformer.model.config import ModelConfig
from glassformer.model.transformer import Transformer
from glassformer.pretrained.exporting import fitting_architecture
from glassformer.pretrained.family import Family, families
from glassformer.pretrained.translation_rules import Rule, Settings, to_ours, to_theirs
from glassformer.recipe import built_in_recipes, load_recipe

SMALL = {"hidden_size": 24, "num_attention_heads": 6, "num_hidden_layers": 2, "intermediate_size": 40}


def family(name: str) -> Family:
    return next(each for each in families() if name == each.model_type)


def read(of: str, **more: Any) -> ModelConfig:
    return ModelConfig.parse(family(of).read(Settings({**SMALL, **more}, "config.json"), set()))


def test_gpt2_small() -> None:
    values = {"n_embd": 768, "n_layer": 12, "n_head": 12, "n_positions": 1024, "vocab_size": 50257}
    config = ModelConfig.parse(family("gpt2").read(Settings(values, "config.json"), set()))
    assert (config.width, config.layers, config.heads, config.context) == (768, 12, 12, 1024)
    assert (config.feedforward.kind, config.head.kind, config.dropout) == ("gelu-tanh", "tied", 0.1)  # type: ignore[union-attr]
    assert sum(part.parameters for part in parts_of(config, 50257)) == 124_439_808  # what GPT2LMHeadModel counts


@pytest.mark.parametrize(
    "more", [{"rope_theta": 500.0}, {"rope_parameters": {"rope_type": "default", "rope_theta": 500.0}, "rope_scaling": None}]
)
def test_the_base_of_the_rotation(more: dict[str, Any]) -> None:
    assert read("llama", **more).positions.base == 500.0  # type: ignore[union-attr]


def test_sizes_that_are_what_they_would_be_anyway_are_left_out() -> None:
    assert read("llama").mixer.non_defaults() == {"kind": "dot"}  # type: ignore[union-attr]
    assert read("llama", num_key_value_heads=2, head_dim=4).mixer.non_defaults() == {"kind": "dot", "kv_heads": 2}  # type: ignore[union-attr]
    assert read("llama", num_key_value_heads=2, head_dim=4).head_width is None
    assert read("qwen2").mixer.non_defaults() == {"kind": "dot", "bias": True}  # type: ignore[union-attr]


def test_windows_by_layer() -> None:
    window = {"sliding_window": 8, "max_position_embeddings": 64}
    assert read("mistral", **window).mixer.window == 8  # type: ignore[union-attr]
    assert read("mistral", sliding_window=64, max_position_embeddings=64).mixer.window is None  # type: ignore[union-attr]
    assert read("qwen2", **window, use_sliding_window=False).mixer.window is None  # type: ignore[union-attr]
    mixed = read("qwen3", **window, head_dim=4, num_key_value_heads=6, layer_types=["full_attention", "sliding_attention"])
    assert [mixed.of_layer(layer).mixer.window for layer in range(2)] == [None, 8]  # type: ignore[attr-defined]
    written = family("qwen3").write(mixed, mixed.dims(7), ByteTokenizer())
    assert written["layer_types"] == ["full_attention", "sliding_attention"]
    assert written["sliding_window"] == 8


MODELS: list[tuple[str, dict[str, Any]]] = [
    ("gpt2", {"feedforward": {"kind": "relu", "inner": 5}}),
    *(
        (
            "llama",
            {"bias": False, "mixer": mixer, "head": "untied", "norm": "rms", "feedforward": {"kind": "gated", "inner": 5}},
        )
        for mixer in ("dot", {"kind": "dot", "kv_heads": 2}, {"kind": "dot", "kv_heads": 3, "bias": True})
    ),
]


@pytest.mark.parametrize(("name", "model"), MODELS, ids=str)
def test_there_and_back(name: str, model: dict[str, Any]) -> None:
    positions = {} if name == "gpt2" else {"positions": {"kind": "rotary", "base": 77.0}}
    config = ModelConfig.parse({"width": 24, "heads": 6, "layers": 2, "context": 7, **positions, **model})
    written = family(name).write(config, config.dims(256), ByteTokenizer())
    assert ModelConfig.parse(family(name).read(Settings(written, "config.json"), set())) == config


@pytest.mark.parametrize(("name", "model"), MODELS, ids=str)
def test_every_tensor_of_ours_has_a_rule(name: str, model: dict[str, Any]) -> None:
    positions = {} if name == "gpt2" else {"positions": "rotary"}
    config = ModelConfig.parse({"width": 24, "heads": 6, "layers": 2, "context": 7, **positions, **model})
    with torch.device("meta"):
        names = {name for name, _ in Transformer(config, 11).named_parameters()}
    assert names <= {rule.ours for rule in family(name).rules(config, config.dims(11))}


def test_what_a_family_has_no_place_for_is_named() -> None:
    odd = {"mixer": {"kind": "dot", "scale": 1.0, "masked": [3]}, "width": 12, "heads": 3, "head_width": 2}
    sentences = family("gpt2").objections(ModelConfig.parse(odd))
    assert sentences == ["model.head_width=2", "model.mixer.scale=1.0", "model.mixer.masked=[3]"]
    assert family("gpt2").objections(ModelConfig()) == []
    qk = ModelConfig.parse({"mixer": {"kind": "dot", "qk": "rms"}})
    assert family("gpt2").objections(qk) == ["model.mixer.qk=rms"]


def test_settings_that_cannot_become_ours() -> None:
    with refused(DataError, "bad-setting", "attention.output"):
        read("llama", mlp_bias=True)
    with refused(DataError, "bad-setting"):
        read("llama", rope_scaling={"type": "linear", "factor": 2.0})
    with refused(DataError, "bad-setting"):
        family("gpt2").read(Settings({"activation_function": "mish"}, "config.json"), set())


def test_layouts() -> None:
    """Two heads of two numbers: theirs is q1 k1 v1 q2 k2 v2, ours q1 q2 k1 k2 v1 v2; and halves swapped within a head."""
    theirs = torch.arange(12.0).unsqueeze(-1)
    rule = Rule("a", ("b",), (12,), heads=2, head_width=2)
    ours = to_ours({"b": theirs}, [rule], {"a": torch.Size((12, 1))})["a"]
    assert ours.flatten().tolist() == [0, 1, 6, 7, 2, 3, 8, 9, 4, 5, 10, 11]
    assert torch.equal(to_theirs({"a": ours, "embedding.weight": ours}, [rule])["b"], theirs)
    turned = Rule("a", ("b", "c"), (4, 4), turned_back=(0,), head_width=4)
    both = {"b": theirs[:4], "c": theirs[4:8]}
    ours = to_ours(both, [turned], {"a": torch.Size((8, 1))})["a"]
    assert ours.flatten().tolist() == [2, 3, 0, 1, 4, 5, 6, 7]
    again = to_theirs({"a": ours, "embedding.weight": ours}, [turned])
    assert all(torch.equal(again[name], both[name]) for name in both)


@pytest.mark.parametrize("each", [each for each in families() if not each.heads], ids=lambda each: each.model_type)
def test_the_recipe_of_a_family_has_its_parts(each: Family) -> None:
    """``like-NAME``: the nearest class for that recipe is the family's."""
    name = f"like-{each.model_type.replace('_', '-')}"
    if each.model_type in ("mistral", "qwen2"):
        assert name not in built_in_recipes()  # Llama with a window, or with some biases
        return
    model = load_recipe(name).model
    assert isinstance(model, ModelConfig)
    assert fitting_architecture(model) is each
