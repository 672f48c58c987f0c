"""The choices of a model: names or mappings, refused when they do not fit, with what would."""

from __future__ import annotations

import time

import pytest

from glassformer.foundation.errors import ConfigError
from glassformer.model.config import ModelConfig


def refused(**values: object) -> str:
    with pytest.raises(ConfigError) as caught:
        ModelConfig.parse(values, at="model")
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_name_and_a_mapping_say_the_same() -> None:
    assert ModelConfig.parse({"norm": "rms"}) == ModelConfig.parse({"norm": {"kind": "rms"}})
    assert ModelConfig.parse({"feedforward": {"kind": "relu", "inner": 7}}).feedforward.inner == 7


def test_there_and_back() -> None:
    config = ModelConfig.parse({"width": 12, "heads": 3, "norm": "rms", "feedforward": {"kind": "gated", "expansion": 2.0}})
    assert ModelConfig.parse(config.to_dict()) == config
    assert config.to_dict()["norm"] == {"kind": "rms", "eps": 1e-6, "scale": "weight"}


def test_the_sizes() -> None:
    dims = ModelConfig.parse({"width": 12, "heads": 3, "layers": 2, "context": 7, "dropout": 0.1, "bias": False}).dims(11)
    assert (dims.width, dims.heads, dims.layers, dims.context, dims.vocabulary) == (12, 3, 2, 7, 11)
    assert (dims.dropout, dims.bias, dims.causal) == (0.1, False, True)


def test_heads_that_do_not_divide_the_width() -> None:
    sentence = refused(width=100, heads=8)
    assert "model.heads=8 does not divide model.width=100; use one of [1, 2, 4, 5, 10, 20, 25, 50, 100] heads" in sentence
    assert "a width such as 96" in sentence
    assert "a width such as 8." in refused(width=5, heads=8)


def test_heads_of_another_width() -> None:
    dims = ModelConfig.parse({"width": 100, "heads": 8, "head_width": 3}).dims(11)
    assert (dims.head_width, dims.attention_width) == (3, 24)
    sentence = refused(width=12, heads=3, head_width=2, mixer="average")
    assert "model.head_width=2 with model.heads=3" in sentence
    assert "choose dot or grouped" in sentence
    assert ModelConfig().non_defaults() == {}


def test_a_huge_width_is_refused_at_once() -> None:
    begun = time.process_time()
    assert "model.width" in refused(width=10**12 + 39, heads=7)
    assert time.process_time() - begun < 60  # of the processor: trying one width after another would take a day


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"width": 0}, "model.width=0 is not accepted"),
        ({"layers": -1}, "model.layers=-1 is not accepted"),
        ({"heads": 0}, "model.heads=0 is not accepted"),
        ({"context": 0}, "model.context=0 is not accepted"),
        ({"dropout": 1.0}, "model.dropout=1.0 is not accepted: input should be less than 1."),
        ({"width": "big"}, "model.width='big' is not accepted: input should be a valid integer."),
        ({"widht": 3}, "There is no key 'model.widht'. Did you mean 'width'?"),
        ({"mixer": "dto"}, "model.mixer has no 'dto'. Did you mean 'dot'?"),
        ({"norm": {"kind": "rms", "epsilon": 1.0}}, "There is no key 'model.norm.epsilon'. Did you mean 'eps'?"),
        ({"feedforward": {"kind": "gelu", "expansion": 0.0}}, "model.feedforward.expansion=0.0 is not accepted"),
    ],
)
def test_mistakes_are_sentences(values: dict[str, object], words: str) -> None:
    assert refused(**values).startswith(words)
