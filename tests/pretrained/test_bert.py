"""The settings of BERT and RoBERTa as ours and back; which head follows from which tensors."""

from __future__ import annotations

from typing import Any

import pytest

from glassformer.data.tokenizers.byte import ByteTokenizer
from glassformer.model.config import ModelConfig
from glassformer.pretrained.family import Family, families
from glassformer.pretrained.translation_rules import Settings

BERT, RoBERTa = (next(one for one in families() if one.model_type == name) for name in ("bert", "roberta"))
SMALL = {"hidden_size": 24, "num_attention_heads": 6, "num_hidden_layers": 2, "intermediate_size": 40, "layer_norm_eps": 1e-7}


@pytest.mark.parametrize(
    ("architecture", "tensors", "head"),
    [
        (BERT, {"cls.predictions.transform.dense.weight", "pooler.dense.weight"}, "masked"),
        (BERT, {"pooler.dense.weight"}, "pooled"),
        (BERT, set(), "tied"),
        (RoBERTa, {"lm_head.dense.weight"}, "masked"),
    ],
)
def test_the_head_follows_from_the_tensors(architecture: Family, tensors: set[str], head: str) -> None:
    values = architecture.read(Settings(SMALL, "config.json"), tensors)
    assert ModelConfig.parse(values).head.kind == head


def test_positions_begin_after_the_padding_in_roberta() -> None:
    config = ModelConfig.parse(RoBERTa.read(Settings({**SMALL, "max_position_embeddings": 514}, "config.json"), set()))
    assert (config.context, config.positions.to_dict()) == (512, {"kind": "learned", "offset": 2})
    written = RoBERTa.write(config, config.dims(256), ByteTokenizer())
    assert (written["max_position_embeddings"], written["pad_token_id"]) == (514, 1)
    assert not RoBERTa.objections(config)
    assert BERT.objections(config) == ["model.positions.offset=2"]


def test_padding_may_have_the_first_id_in_roberta() -> None:
    values = {**SMALL, "max_position_embeddings": 41, "pad_token_id": 0}
    config = ModelConfig.parse(RoBERTa.read(Settings(values, "config.json"), {"lm_head.dense.weight"}))
    assert (config.context, config.positions.to_dict()) == (40, {"kind": "learned", "offset": 1})
    assert not RoBERTa.objections(config)
    written = RoBERTa.write(config, config.dims(256), ByteTokenizer())
    assert (written["max_position_embeddings"], written["pad_token_id"]) == (41, 0)


@pytest.mark.parametrize("change", [{}, {"hidden_act": "gelu_new"}, {"type_vocab_size": 3}])
def test_there_and_back(change: dict[str, Any]) -> None:
    tensors = {"cls.predictions.transform.dense.weight"}
    config = ModelConfig.parse(BERT.read(Settings({**SMALL, **change}, "config.json"), tensors))
    assert not BERT.objections(config)
    written = BERT.write(config, config.dims(256), ByteTokenizer())
    assert ModelConfig.parse(BERT.read(Settings(written, "config.json"), tensors)) == config


def test_a_head_of_its_own_bend_has_no_class() -> None:
    config = ModelConfig.parse(BERT.read(Settings(SMALL, "config.json"), {"cls.predictions.transform.dense.weight"}))
    other = ModelConfig.parse({**config.to_dict(), "head": {"kind": "masked", "activation": "relu", "eps": 1e-7}})
    assert BERT.objections(other) == ["model.head has another hidden_act than the layers"]
