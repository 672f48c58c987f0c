"""The Transformer as the usual choice of the slot ``model``: not written, and the same when written."""

from __future__ import annotations

import torch
from tests.refusals import refused

from glassformer.foundation.errors import ConfigError
from glassformer.model.config import ModelConfig
from glassformer.model.network import MODELS
from glassformer.model.transformer import Transformer
from glassformer.recipe import load_recipe

SIZES = {"width": 12, "heads": 3, "layers": 1, "context": 7}


def test_its_name_is_transformer() -> None:
    assert MODELS.get("transformer") is ModelConfig
    assert MODELS.parse({"kind": "transformer", **SIZES}) == ModelConfig.parse(SIZES)


def test_a_recipe_need_not_name_it(tiny) -> None:
    named = load_recipe({**tiny, "model": {"kind": "transformer", **tiny["model"]}})
    assert named == load_recipe(tiny)
    assert named.fingerprint == load_recipe(tiny).fingerprint
    assert isinstance(named.model, ModelConfig)


def test_it_builds_the_network_of_its_sizes() -> None:
    network = MODELS.parse({"kind": "transformer", **SIZES}).build(11, outputs=None, seed=1)
    assert isinstance(network, Transformer)
    assert network(torch.zeros(2, 5, dtype=torch.long)).shape == (2, 5, 11)


def test_another_name_is_refused(tiny) -> None:
    with refused(ConfigError, "unknown-name", "transformer"):
        load_recipe({**tiny, "model": {"kind": "transfomer", **tiny["model"]}})
