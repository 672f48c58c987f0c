"""Classes of transformers -> tiny models: sizes by name, one layer of each kind, decoders where there is a choice."""

from __future__ import annotations

import pytest
import torch

from glassformer.checks.tiny_model import (
    CONTEXT,
    HEADS,
    SIZES,
    VOCABULARY,
    WIDTH,
    _layers,
    _replaceable,
    causal_classes,
    model_class,
    tiny_config,
    tiny_model,
)
from glassformer.foundation.errors import UnknownName

transformers = pytest.importorskip("transformers")


def test_causal_classes_are_many_and_each_once() -> None:
    names = causal_classes()
    assert len(names) == len(set(names)) > 140  # 146 in transformers 5.3
    with pytest.raises(UnknownName, match="Did you mean 'LlamaForCausalLM'"):
        tiny_model("LamaForCausalLM")


@pytest.mark.parametrize("name", ["logging", "LlamaConfig"])
def test_what_is_no_model_is_no_class(name: str) -> None:
    with pytest.raises(UnknownName):
        model_class(name)


def test_sizes_are_found_by_their_names() -> None:
    llama, gpt2 = tiny_config(transformers.LlamaConfig), tiny_config(transformers.GPT2Config)
    assert (llama.hidden_size, llama.num_attention_heads, llama.num_key_value_heads) == (WIDTH, HEADS, 2)
    assert (gpt2.n_embd, gpt2.n_head, gpt2.n_positions, gpt2.vocab_size) == (WIDTH, HEADS, CONTEXT, VOCABULARY)


def test_windows_are_shorter_than_the_context() -> None:
    assert tiny_config(transformers.MistralConfig).sliding_window == SIZES["sliding_window"] < CONTEXT


def test_an_encoder_is_told_to_be_a_decoder() -> None:
    assert not transformers.BertConfig().is_decoder
    assert tiny_config(transformers.BertConfig).is_decoder


def test_one_layer_of_each_kind_in_order() -> None:
    class Config:
        layer_types = ("near", "near", "far", "near")
        mlp_layer_types = ("dense", "sparse", "sparse")

    known = ["layer_types", "mlp_layer_types", "num_hidden_layers"]
    expected = {"layer_types": ["near", "far"], "mlp_layer_types": ["dense", "sparse"], "num_hidden_layers": 2}
    assert _layers(Config(), known) == expected
    Config.layer_types = ("near",) * 5
    assert _layers(Config(), known)["layer_types"] == ["near", "near"]
    assert _layers(object(), known) == {}


def test_only_a_number_becomes_a_number() -> None:
    assert _replaceable(None, 8)
    assert _replaceable(4096, 8)
    assert not _replaceable([1, 2], 8)
    assert not _replaceable(True, 8)  # a switch is not a size
    assert not _replaceable(3, False)


def test_the_weights_are_those_of_the_seed_and_none_is_all_zero_or_one() -> None:
    one, twin, other = tiny_model("GPT2LMHeadModel"), tiny_model("GPT2LMHeadModel"), tiny_model("GPT2LMHeadModel", seed=1)
    pairs = zip(one.parameters(), twin.parameters(), other.parameters())
    assert all(torch.equal(a, b) and not torch.equal(a, c) for a, b, c in pairs)
    assert all(parameter.unique().numel() > 1 for parameter in one.parameters())
    assert not one.training
    assert {parameter.dtype for parameter in one.parameters()} == {torch.float32}
    assert sum(parameter.numel() for parameter in one.parameters()) < 100_000
