"""What a model costs: formulas against real models, torch's own FLOP counter, and real saved tensors."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from glassformer.foundation.errors import ConfigError
from glassformer.model.accounting import Cost, cost_of, parts_of, saved_bytes
from glassformer.model.attention_context import OwnLosses
from glassformer.model.config import ModelConfig
from glassformer.model.losses import summed_cross_entropy
from glassformer.model.slots import BLOCKS, FEEDFORWARDS, HEADS, MERGES, MIXERS, NORMS, POSITIONS
from glassformer.model.transformer import Transformer

B, T, V = 2, 5, 11
BASE = {"width": 12, "heads": 3, "layers": 2, "context": 7}
SLOTS = {
    "positions": POSITIONS,
    "mixer": MIXERS,
    "merge": MERGES,
    "norm": NORMS,
    "feedforward": FEEDFORWARDS,
    "block": BLOCKS,
    "head": HEADS,
}


def every_combination() -> list[dict[str, object]]:
    """Every two variants of different slots, beside usual choices in the others."""
    first = {key: slot.names()[0] for key, slot in SLOTS.items()} | {"mixer": "dot", "positions": "learned"}
    pairs = [
        {**first, one: a, other: b}
        for one, other in itertools.combinations(SLOTS, 2)
        for a in SLOTS[one].names()
        for b in SLOTS[other].names()
    ]
    return [dict(items) for items in dict.fromkeys(tuple(sorted(each.items())) for each in pairs)]


def config_of(**changes: object) -> ModelConfig:
    head = changes.get("head")
    pools = isinstance(head, dict) and HEADS.get(head["kind"]).pools
    mixer = changes.get("mixer")
    if isinstance(mixer, dict) and MIXERS.get(mixer["kind"]).borrows_keys:
        changes["mixer"] = ["dot", mixer]  # it takes the keys of a layer before it
    return ModelConfig.parse({**BASE, "causal": not pools, **changes})  # a head for whole rows belongs to an encoder


def test_by_hand() -> None:
    """Width 12, 2 layers, 11 tokens, 7 places, biases: the numbers of a GPT-2 block on paper."""
    counted = {part.name: part.parameters for part in parts_of(config_of(), V)}
    assert counted == {
        "embedding": 11 * 12,
        "positions (learned)": 7 * 12,
        "mixer (dot)": 2 * (12 * 36 + 36),
        "merge (concat)": 0,
        "output projection": 2 * (12 * 12 + 12),
        "feedforward (gelu)": 2 * (12 * 48 + 48 + 48 * 12 + 12),
        "block (pre)": 0,
        "norm (layer)": 5 * 24,
        "stack (plain)": 0,
        "head (tied)": 0,
    }
    flops = {part.name: part.forward_flops for part in parts_of(config_of(), V, batch=B, length=T)}
    assert flops["mixer (dot)"] == 2 * (2 * 10 * 12 * 36 + 2 * (2 * 2 * 3 * 5 * 5 * 4))
    assert flops["head (tied)"] == 2 * 10 * 12 * 11


@pytest.mark.parametrize("bias", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_parameters_are_exact_for_every_combination(bias: bool) -> None:
    tried = 0
    for chosen in every_combination():
        try:
            config = config_of(bias=bias, **chosen)
        except ConfigError:  # positions that a mixer cannot take are refused
            continue
        model = Transformer(config, V)
        assert sum(part.parameters for part in parts_of(config, V)) == sum(p.numel() for p in model.parameters()), chosen
        tried += 1
    assert tried >= 36


def counted_flops(config: ModelConfig, length: int) -> int:
    model = Transformer(config, V)
    ids_BT = torch.randint(V, (B, length))
    for module in model.modules():  # somebody looks, so the reference implementation runs, which is what the counter can count
        if hasattr(module, "pattern"):
            module.pattern.register_forward_hook(lambda *arguments: None)
    own = OwnLosses()
    model.collect(own)  # as a training step does
    with FlopCounterMode(display=False) as counter:
        loss = summed_cross_entropy(model(ids_BT), ids_BT[:, 0] if model.pools else ids_BT)
        sum(own.sums.values(), loss).backward()
    return counter.get_total_flops()


EVERY_VARIANT = [
    (key, {"kind": name, **settings})
    for key, slot in SLOTS.items()
    for name in slot.names()
    for settings in slot.get(name).examples
]


@pytest.mark.parametrize(("slot", "variant"), EVERY_VARIANT)
def test_flops_of_a_step_are_those_that_torch_counts(slot: str, variant: dict[str, object]) -> None:
    """Those of a forward pass alone are compared in the conformance suite."""
    config = config_of(**{slot: variant})
    for length in (T, 7):
        cost = Cost(parts_of(config, V, batch=B, length=length), B, length, 0, 0, 0)
        assert counted_flops(config, length) == cost.step_flops


def kept_in_reality(config: ModelConfig) -> int:
    torch.manual_seed(0)
    model = Transformer(config, V).train()
    return saved_bytes(model, torch.randint(V, (B, config.context)))


@pytest.mark.parametrize(("slot", "variant"), EVERY_VARIANT)
@pytest.mark.parametrize("dropout", [0.0, 0.25])
def test_activation_bytes_are_those_that_a_real_step_keeps(slot: str, variant: dict[str, object], dropout: float) -> None:
    config = config_of(dropout=dropout, **{slot: variant})
    predicted, real = cost_of(config, V, batch=B).activation_bytes, kept_in_reality(config)
    assert predicted == pytest.approx(real, rel=0.02)  # the promise is 20 %


def test_activations_grow_with_the_batch() -> None:
    one, three = (cost_of(config_of(), V, batch=batch).activation_bytes for batch in (1, 3))
    assert one < three <= 3 * one


def test_bytes_of_weights_and_gradients() -> None:
    config = config_of(head="untied", norm="rms")
    model = Transformer(config, V)
    ids_BT = torch.randint(V, (B, T))
    summed_cross_entropy(model(ids_BT), ids_BT).backward()
    cost = cost_of(config, V, batch=B)
    assert cost.weight_bytes == sum(p.nbytes for p in model.parameters())
    assert cost.gradient_bytes == sum(p.grad.nbytes for p in model.parameters() if p.grad is not None)


def test_the_plain_form_adds_up() -> None:
    plain = cost_of(config_of(), V, batch=B).to_dict()
    assert plain["parameters"] == sum(part["parameters"] for part in plain["parts"])
    assert plain["step_flops"] == 3 * plain["forward_flops"]
    assert [part["copies"] for part in plain["parts"]] == [1, 1, 2, 2, 2, 2, 2, 5, 1, 1]


def test_segments_and_the_norm_of_the_embedding_are_counted() -> None:
    config = ModelConfig.parse({**config_of().to_dict(), "segments": 2, "embedding_norm": True, "vocabulary": V + 4})
    real = sum(parameter.numel() for parameter in Transformer(config, V).parameters())
    assert sum(part.parameters for part in parts_of(config, V)) == real


@pytest.mark.parametrize("mixer", ["dot", {"kind": "grouped", "kv_heads": 1, "bias": False}])
def test_narrow_heads_are_counted(mixer: Any) -> None:
    config = ModelConfig.parse({**config_of().to_dict(), "mixer": mixer, "head_width": 2})
    model, ids_BT = Transformer(config, V), torch.randint(V, (B, T))
    assert sum(part.parameters for part in parts_of(config, V)) == sum(parameter.numel() for parameter in model.parameters())
    assert model(ids_BT).shape == (B, T, V)


def test_published_sizes_of_an_encoder_and_a_decoder_with_narrow_heads() -> None:
    """Who said it (5,755 words, three labels): heads of 2 numbers without biases give the published counts."""
    narrow = {
        "width": 64,
        "heads": 2,
        "head_width": 2,
        "layers": 4,
        "context": 32,
        "feedforward": {"kind": "relu", "inner": 100},
    }
    narrow["mixer"] = {"kind": "grouped", "kv_heads": 2, "bias": False}
    head = {"kind": "classifier", "pool": "mean", "hidden": [100]}
    encoder = ModelConfig.parse({**narrow, "block": "post", "causal": False, "head": head})
    decoder = ModelConfig.parse({**narrow, "head": {"kind": "untied", "bias": True}})
    by_part = {part.name: part.parameters for part in parts_of(encoder, 5755, outputs=3)}
    assert (by_part["head (classifier)"], sum(by_part.values())) == (6_803, 434_403)
    assert sum(part.parameters for part in parts_of(decoder, 5755)) == 801_803
