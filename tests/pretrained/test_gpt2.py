"""GPT-2's settings as ours and back."""

from __future__ import annotations

from glassformer.data.tokenizers.byte import ByteTokenizer
from glassformer.model.config import ModelConfig
from glassformer.pretrained.architecture import Settings
from glassformer.pretrained.gpt2 import GPT2


def test_the_settings_of_the_small_one() -> None:
    values = {"n_embd": 768, "n_layer": 12, "n_head": 12, "n_positions": 1024, "vocab_size": 50257}
    config = ModelConfig.parse(GPT2().read(Settings(values, "config.json"), set()))
    assert (config.width, config.layers, config.heads, config.context) == (768, 12, 12, 1024)
    assert (config.feedforward.kind, config.head.kind, config.dropout) == ("gelu-tanh", "tied", 0.1)
    from glassformer.model.accounting import parts_of

    assert sum(part.parameters for part in parts_of(config, 50257)) == 124_439_808  # what GPT2LMHeadModel counts


def test_there_and_back() -> None:
    config = ModelConfig.parse(
        {"width": 12, "heads": 3, "layers": 2, "context": 7, "feedforward": {"kind": "relu", "inner": 5}}
    )
    written = GPT2().write(config, config.dims(256), ByteTokenizer())
    assert (written["n_inner"], written["activation_function"], written["eos_token_id"]) == (5, "relu", None)
    again = ModelConfig.parse(GPT2().read(Settings(written, "config.json"), set()))
    assert again == config


def test_every_tensor_of_ours_has_a_rule() -> None:
    import torch

    from glassformer.model.transformer import Transformer

    config = ModelConfig(layers=2, head="untied")
    with torch.device("meta"):
        names = {name for name, _ in Transformer(config, 11).named_parameters()}
    assert names == {rule.ours for rule in GPT2().rules(config, config.dims(11))}


def test_attention_that_transformers_does_not_have_is_refused() -> None:
    odd = {"mixer": {"kind": "dot", "scale": 1.0, "masked": [3]}, "width": 12, "heads": 3, "head_width": 2}
    sentences = GPT2().objections(ModelConfig.parse(odd))
    assert sentences == ["model.mixer.scale=1.0", "model.mixer.masked=[3]", "model.head_width=2 with model.heads=3"]
    assert GPT2().objections(ModelConfig()) == []
