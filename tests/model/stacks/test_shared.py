"""Shared blocks: which is used when, what they cost, and that each application has its own cache."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tests.refusals import refused

from glassformer.checks.check import check_model
from glassformer.foundation.errors import ConfigError
from glassformer.model.accounting import parts_of
from glassformer.model.config import ModelConfig
from glassformer.model.dims import Dims
from glassformer.model.stacks.shared import SharedConfig
from glassformer.model.transformer import build_model

SIZES: dict[str, Any] = {"width": 12, "heads": 3, "layers": 6, "context": 11}


def test_the_order_of_the_blocks() -> None:
    dims = Dims(width=2, heads=1, layers=6, context=5, vocabulary=7)
    assert [SharedConfig(blocks=3).block_of(dims, layer) for layer in range(6)] == [0, 1, 2, 0, 1, 2]
    assert [SharedConfig(blocks=3, order="repeat").block_of(dims, layer) for layer in range(6)] == [0, 0, 1, 1, 2, 2]


@pytest.mark.parametrize("order", ["loop", "repeat"])
def test_it_is_the_plain_model_with_equal_blocks(order: str) -> None:
    config = ModelConfig.parse({**SIZES, "stack": {"kind": "shared", "blocks": 2, "order": order}})
    model = build_model(config, 13, seed=1).eval()
    plain = build_model(ModelConfig.parse(SIZES), 13, seed=2).eval()
    assert len(model.blocks) == 2
    state = {name: tensor for name, tensor in model.state_dict().items() if not name.startswith("blocks.")}
    for layer, block in enumerate(config.order):
        state |= {f"blocks.{layer}.{name}": tensor for name, tensor in model.blocks[block].state_dict().items()}
    plain.load_state_dict(state)
    ids_BT = torch.arange(9).unsqueeze(0)
    assert torch.equal(model(ids_BT), plain(ids_BT))


def test_blocks_have_parameters_and_layers_have_flops() -> None:
    plain = parts_of(ModelConfig.parse(SIZES), 13, batch=2)
    shared = parts_of(ModelConfig.parse({**SIZES, "stack": {"kind": "shared", "blocks": 2}}), 13, batch=2)
    assert sum(part.forward_flops for part in plain) == sum(part.forward_flops for part in shared)
    mixers = [next(part for part in parts if part.name.startswith("mixer")) for parts in (plain, shared)]
    assert mixers[0].parameters == 3 * mixers[1].parameters
    assert [mixer.copies for mixer in mixers] == [6, 2]


def test_each_application_has_its_own_cache() -> None:
    model = build_model(ModelConfig.parse({**SIZES, "stack": "shared"}), 13, seed=1)
    assert len(model.new_cache().layers) == 6
    assert model.cache_bytes(rows=1, capacity=10) == 6 * 10 * 24 * 4
    assert check_model(model).passed


def test_a_number_that_does_not_divide_the_layers() -> None:
    with refused(ConfigError, "bad-value", "model.stack.blocks=4"):
        ModelConfig.parse({**SIZES, "stack": {"kind": "shared", "blocks": 4}})
    with refused(ConfigError, "bad-value", "3 entries for 2 blocks"):
        ModelConfig.parse({**SIZES, "stack": {"kind": "shared", "blocks": 2}, "norm": ["rms", "layer", "none"]})
