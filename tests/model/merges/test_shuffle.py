"""Shuffle: fixed per layer from a seed, or drawn at each step and identity in evaluation."""

from __future__ import annotations

from dataclasses import replace

import torch
from tests.refusals import refused

from glassformer.foundation.errors import ConfigError
from glassformer.model.config import ModelConfig
from glassformer.model.dims import Dims
from glassformer.model.merges.shuffle import ShuffleConfig
from glassformer.model.slots import Merge

DIMS = Dims(width=10, heads=5, layers=4, context=5, vocabulary=7)
Z_BHTE = torch.arange(5.0).reshape(1, 5, 1, 1).expand(2, 5, 3, 2)


def order(merge: Merge) -> list[float]:
    """The heads in the order in which they were put together."""
    merged_BTD = merge(Z_BHTE)
    assert merged_BTD.shape == (2, 3, 10)
    return merged_BTD[1, 2, ::2].tolist()


def test_fixed_order_is_a_permutation_that_differs_by_layer_and_seed_and_stays() -> None:
    orders = {
        (seed, layer): order(ShuffleConfig(seed=seed).build(replace(DIMS, layer=layer))) for seed in (0, 1) for layer in (0, 1)
    }
    assert all(sorted(heads) == [0, 1, 2, 3, 4] for heads in orders.values())
    assert len({tuple(heads) for heads in orders.values()}) == 4
    assert order(ShuffleConfig().build(replace(DIMS, layer=1)).eval()) == orders[0, 1]


def test_redrawn_order_follows_torch_and_is_identity_in_evaluation() -> None:
    merge = ShuffleConfig(redrawn=True).build(DIMS)
    drawn = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        drawn.append(order(merge.train()))
    assert drawn[0] == drawn[1] != drawn[2]
    assert order(merge.eval()) == [0, 1, 2, 3, 4]


def test_layers_of_one_step_draw_different_orders() -> None:
    merge = ShuffleConfig(redrawn=True).build(DIMS).train()
    torch.manual_seed(1)
    assert order(merge) != order(merge)


def test_one_head_is_refused() -> None:
    with refused(ConfigError, "bad-value", "model.merge=shuffle", "model.heads=1"):
        ModelConfig.parse({"merge": "shuffle", "heads": 1})
