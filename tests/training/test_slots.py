"""The interfaces of training: what decays, how a rate rises; every variant answers."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from glassformer.training.slots import (
    OPTIMIZERS,
    SCHEDULES,
    OptimizerConfig,
    ScheduleConfig,
    decay_groups,
    decays,
    depth_from_top,
    layer_of,
    warm_up,
    warm_up_length,
)


def test_matrices_decay_and_vectors_do_not() -> None:
    parameters = {"a.weight": nn.Parameter(torch.ones(2, 3)), "a.bias": nn.Parameter(torch.ones(2))}
    assert [decays(name, parameter) for name, parameter in parameters.items()] == [True, False]
    decaying, others = decay_groups(parameters, 0.1)
    assert decaying == {"params": [parameters["a.weight"]], "weight_decay": 0.1}
    assert others == {"params": [parameters["a.bias"]], "weight_decay": 0.0}
    assert len(decay_groups({"a.weight": parameters["a.weight"]}, 0.1)) == 1  # torch refuses empty groups


def test_the_layer_of_a_parameter_by_its_name() -> None:
    assert [
        layer_of(name) for name in ("blocks.11.norm.weight", "encoder.encoder.layer.3.x.weight", "h.0.y", "layers.2.z")
    ] == [11, 3, 0, 2]
    assert layer_of("head.layers.1.weight") is None  # a classifier's own layers are above all others
    assert layer_of("encoder.encoder.albert_layer_groups.0.albert_layers.0.ffn.weight") == 0
    assert [layer_of(name) for name in ("embedding.weight", "head.weight", "norm.weight", "encoder.layer_norm.weight")] == [
        None
    ] * 4


def test_how_far_under_the_head_a_parameter_is() -> None:
    assert depth_from_top(["embedding", "positions", "blocks.0.a", "blocks.1.a", "norm", "head"]) == [3, 3, 2, 1, 0, 0]
    assert depth_from_top(["reader.prefix", "head.classifier.weight"]) == [0, 0]


def test_warm_up_by_hand() -> None:
    assert [warm_up(step, 3) for step in range(3)] == [0.25, 0.5, 0.75]
    assert (warm_up_length(None, 100), warm_up_length(None, 100_000), warm_up_length(7, 100)) == (5, 100, 7)
    assert warm_up_length(None, 10) == 0


@pytest.mark.parametrize(("slot", "interface"), [(OPTIMIZERS, OptimizerConfig), (SCHEDULES, ScheduleConfig)])
def test_every_variant_is_of_its_slot_and_final(slot, interface) -> None:
    for name in slot.names():
        assert issubclass(slot.get(name), interface)
        assert getattr(slot.get(name), "__final__", False)


@pytest.mark.parametrize("name", SCHEDULES.names())
@pytest.mark.parametrize("steps", [1, 2, 3, 19, 20, 200])
def test_every_schedule_stays_between_zero_and_one(name: str, steps: int) -> None:
    """Also beyond the end: a run that goes on to more steps asks there."""
    schedule = SCHEDULES.get(name)()
    factors = [schedule.lr_multiplier(step, steps) for step in range(steps + 3)]
    assert all(0.0 <= lr_multiplier <= 1.0 for lr_multiplier in factors)
    assert factors[0] > 0.0
    top = factors.index(max(factors))
    assert factors[: top + 1] == sorted(factors[: top + 1])
    assert factors[top:] == sorted(factors[top:], reverse=True)
