"""The interfaces of the parts: free unless they say otherwise, the identity unless they act."""

from __future__ import annotations

import pytest
import torch

from glassformer.model.dims import Dims
from glassformer.model.slots import (
    BLOCKS,
    FEEDFORWARDS,
    HEADS,
    MERGES,
    MIXERS,
    NORMS,
    POSITIONS,
    BlockConfig,
    FeedforwardConfig,
    HeadConfig,
    MergeConfig,
    MixerConfig,
    NormConfig,
    PartConfig,
    Positions,
    PositionsConfig,
)

DIMS = Dims(width=12, heads=3, layers=2, context=7, vocabulary=11)


def test_a_part_costs_nothing_unless_it_says_so() -> None:
    assert PartConfig().flops(DIMS, 2, 5) == 0


def test_positions_that_do_nothing() -> None:
    positions, position_ids_BT = Positions(), torch.arange(5).unsqueeze(0)
    x_BTD, q_BHTE = torch.randn(2, 5, 12), torch.randn(2, 3, 5, 4)
    assert positions.embed(x_BTD, position_ids_BT) is x_BTD
    assert positions.rotate(q_BHTE, position_ids_BT) is q_BHTE
    assert positions.bias(position_ids_BT, 5) is None


@pytest.mark.parametrize(
    ("slot", "interface"),
    [
        (POSITIONS, PositionsConfig),
        (MIXERS, MixerConfig),
        (MERGES, MergeConfig),
        (NORMS, NormConfig),
        (FEEDFORWARDS, FeedforwardConfig),
        (BLOCKS, BlockConfig),
        (HEADS, HeadConfig),
    ],
)
def test_every_variant_is_of_its_slot_final_and_buildable(slot, interface) -> None:
    for name in slot.names():
        config = slot.get(name)
        assert issubclass(config, interface)
        assert getattr(config, "__final__", False), f"{config.__name__} is neither abstract nor @final"
        assert config.build is not interface.build or name == "none"  # the interface itself, which does nothing
        assert config().to_dict()["kind"] == name


def test_every_way_of_positions_is_known() -> None:
    ways = {"nothing", "embedding", "rotation", "bias"}
    assert all(POSITIONS.get(name).applies_to in ways for name in POSITIONS.names())
    assert all(
        MIXERS.get(name).accepts_positions <= ways and "nothing" in MIXERS.get(name).accepts_positions
        for name in MIXERS.names()
    )
