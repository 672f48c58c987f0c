"""Slots that are lists over the layers: values, fingerprints, building, costs, cache, laws."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch
from tests.refusals import refused
from torch.utils.flop_counter import FlopCounterMode

from glassformer.checks.check import check_model
from glassformer.checks.conformance import looked_at
from glassformer.foundation.config import override, value_at
from glassformer.foundation.errors import ConfigError
from glassformer.model.accounting import parts_of
from glassformer.model.config import ModelConfig
from glassformer.model.transformer import build_model

SIZES: dict[str, Any] = {"width": 12, "heads": 3, "layers": 5, "context": 11}
MIXED = {
    "positions": ["learned", "alibi", "none"],
    "mixer": ["dot", {"kind": "dot", "fused": False}],
    "feedforward": ["relu", {"kind": "gated", "inner": 7}],
    "norm": ["layer", "rms", "layer"],
    "block": ["pre", "pre", "post"],
    "merge": ["concat", "shift"],
}


def config(**choices: Any) -> ModelConfig:
    return ModelConfig.parse({**SIZES, **choices})


def test_layer_n_takes_entry_n_modulo_the_length() -> None:
    made = config(**MIXED)
    kinds = [[part.kind for part in made.of_layer(layer)] for layer in range(5)]
    assert [row[0] for row in kinds] == ["learned", "alibi", "none", "learned", "alibi"]
    assert [row[4] for row in kinds] == ["relu", "gated", "relu", "gated", "relu"]
    assert [row[5] for row in kinds] == ["pre", "pre", "post", "pre", "pre"]


def test_equal_models_have_equal_values() -> None:
    assert config(mixer=["none"]) == config(mixer=["none", "none"]) == config(mixer="none")
    assert config(mixer=["none"]).non_defaults() == config(mixer="none").non_defaults()
    assert config(mixer=["dot"]).non_defaults() == config().non_defaults()
    assert config(mixer=["dot", "none", "dot", "none"]) == config(mixer=["dot", "none"])
    assert config(mixer=["dot", "none", "dot"]) != config(mixer=["dot", "none"])
    assert isinstance(config(mixer=["dot", "none"]).mixer, tuple)


def test_plain_values_are_read_back() -> None:
    made = config(**MIXED)
    assert ModelConfig.parse(made.to_dict()) == made
    assert isinstance(made.to_dict()["mixer"], list)


@pytest.mark.parametrize(
    ("choices", "words"),
    [
        ({"mixer": []}, "model.mixer=[]"),
        ({"positions": ["rotary", "learned"]}, "model.positions.1=learned"),
        ({"mixer": ["dot", "average"], "positions": ["none", "alibi"]}, "model.positions=alibi"),
        ({"mixer": ["dot", "none", "dot", "dot", "dot", "none"]}, "6 entries"),
        ({"mixer": ["dot", {"kind": "grouped", "kv_heads": 2}]}, "kv_heads=2"),
        ({"mixer": ["dot", {"kind": "dot", "windo": 2}]}, "model.mixer.1.windo"),
        ({"mixer": ["dot", 3]}, "model.mixer.1=3"),
    ],
)
def test_lists_that_make_no_model(choices: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError) as error:
        config(**choices)
    assert words in str(error.value)


def test_one_entry_is_addressed_by_its_number() -> None:
    values = {"model": {"mixer": ["dot", {"kind": "dot", "scale": 1.0}], "norm": "rms"}}
    changed = override(values, {"model.mixer.0.fused": False, "model.mixer.1": "none", "model.norm.0.eps": 0.1})
    assert changed["model"]["mixer"] == [{"kind": "dot", "fused": False}, "none"]
    assert changed["model"]["norm"] == {"kind": "rms", "eps": 0.1}  # one choice is its own entry 0
    assert values["model"]["mixer"][0] == "dot"
    assert value_at(changed, "model.mixer.0.fused") is False
    assert value_at(changed, "model.mixer.2") is None
    for key in ("model.mixer.2", "model.mixer.fused"):
        with refused(ConfigError, "no-such-entry", key):
            override(values, {key: True})


def test_what_is_built_is_what_was_asked_for() -> None:
    model = build_model(config(**MIXED), 13, seed=1)
    assert [type(block).__name__ for block in model.blocks] == ["PreBlock", "PreBlock", "PostBlock", "PreBlock", "PreBlock"]
    assert [type(block.feedforward).__name__ for block in model.blocks] == ["MLP", "Gated", "MLP", "Gated", "MLP"]
    assert type(model.final_norm).__name__ == "RMSNorm"  # layer 4 has entry 1
    assert [type(model.positions.of_layer(layer)).__name__ for layer in range(4)] == [
        "Learned",
        "Alibi",
        "Positions",
        "Learned",
    ]


def test_equal_positions_are_one_module() -> None:
    model = build_model(config(positions=["t5", "none", "t5", "t5"]), 13, seed=1)
    assert model.positions.of_layer(0) is model.positions.of_layer(2)
    alone = build_model(config(positions="t5"), 13, seed=1)
    assert torch.equal(model.positions.of_layer(0).table.weight, alone.positions.table.weight)


def test_costs_are_the_sum_over_the_layers() -> None:
    made = config(**MIXED)
    model = build_model(made, 13, seed=1).eval()
    parts = parts_of(made, 13, batch=3, length=7)
    assert sum(part.parameters for part in parts) == sum(parameter.numel() for parameter in model.parameters())
    with looked_at(model), torch.no_grad(), FlopCounterMode(display=False) as counter:
        model(torch.zeros(3, 7, dtype=torch.long))
    assert sum(part.forward_flops for part in parts) == counter.get_total_flops()
    names = [part.name for part in parts]
    assert "positions (learned, alibi, none)" in names
    assert "feedforward (relu, gated)" in names


def test_the_laws_hold() -> None:
    """Causality, rows, padding and the cache, of a model in which every slot is a list."""
    assert check_model(build_model(config(**MIXED), 13, seed=1)).passed


def test_a_list_changes_only_the_start_of_what_it_names() -> None:
    plain, listed = build_model(config(), 13, seed=1).state_dict(), build_model(config(mixer=["dot", "none"]), 13, seed=1)
    same = {name for name, tensor in listed.state_dict().items() if torch.equal(tensor, plain[name])}
    assert same == set(listed.state_dict())


def test_every_pair_of_lists_can_be_built() -> None:
    """The same model, whichever of two slots is written as a list."""
    for one, other in itertools.combinations(MIXED, 2):
        build_model(config(**{one: MIXED[one], other: MIXED[other]}), 13, seed=1)
