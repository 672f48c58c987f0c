"""The interfaces of training: what decays, how a rate rises; optimizers of functions; no variant imports the compiler."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from glassformer.training.optimizers.adamw import AdamWConfig
from glassformer.training.slots import (
    OPTIMIZERS,
    SCHEDULES,
    FunctionalOptimizer,
    Optimizer,
    OptimizerConfig,
    ScheduleConfig,
    WarmUpConfig,
    decay_groups,
    decays,
    depth_from_top,
    layer_of,
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
    class Marked(WarmUpConfig):
        """After the warm-up: its length, as a negative number."""

        def after_warm_up(self, step: int, warmup: int, steps: int) -> float:
            return -warmup

    assert [Marked(warmup=3).lr_multiplier(step, 9) for step in range(4)] == [0.25, 0.5, 0.75, -3]
    lengths = [(None, 100), (None, 100_000), (7, 100), (None, 10)]
    assert [Marked(warmup=warmup).lr_multiplier(steps, steps) for warmup, steps in lengths] == [-5, -100, -7, 0]


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


class Descent(FunctionalOptimizer):
    """The simplest rule there is."""

    def change(self, group: dict[str, Any], weights: list[Tensor], gradients: list[Tensor]) -> None:
        for weight, gradient in zip(weights, gradients, strict=True):
            weight -= group["lr"] * gradient
            self.state[weight]["seen"] = self.state[weight].get("seen", 0) + 1


@pytest.fixture
def pair() -> tuple[nn.Parameter, nn.Parameter]:
    return nn.Parameter(torch.tensor([1.0, 2.0])), nn.Parameter(torch.tensor([3.0]))


def test_groups_by_hand(pair) -> None:
    one, other = pair
    optimizer = Descent([{"params": [one]}, {"params": [other], "lr": 0.5}], lr=0.1)
    one.grad, other.grad = torch.tensor([10.0, -10.0]), torch.tensor([4.0])
    optimizer.step()
    assert one.tolist() == pytest.approx([0.0, 3.0])
    assert other.tolist() == pytest.approx([1.0])
    assert one.requires_grad
    assert optimizer.defaults == {"lr": 0.1}


def test_a_weight_without_a_gradient_rests(pair) -> None:
    one, other = pair
    optimizer = Descent([{"params": [one, other]}], lr=0.1)
    other.grad = torch.tensor([10.0])
    optimizer.step()
    assert one.tolist() == [1.0, 2.0]
    assert other.tolist() == pytest.approx([2.0])
    assert one not in optimizer.state
    other.grad = None
    optimizer.step()
    assert optimizer.state[other]["seen"] == 1


def test_gradients_are_cleared(pair) -> None:
    one, other = pair
    optimizer = Descent([{"params": [one]}, {"params": [other]}], lr=0.1)
    one.grad = torch.tensor([10.0, -10.0])
    optimizer.zero_grad(set_to_none=False)
    assert one.grad.tolist() == [0.0, 0.0]
    assert other.grad is None
    optimizer.zero_grad()
    assert one.grad is None


def test_torchs_own_optimizers_have_the_same_parts(pair) -> None:
    """A user's variant may give one: training asks for nothing else of it."""
    theirs: Optimizer = torch.optim.SGD(pair, lr=0.1)
    (ours,) = AdamWConfig().build({"a": pair[0], "b": pair[1]}, lr=0.1, weight_decay=0.0)
    parts = [name for name in vars(Optimizer) if not name.startswith("_")]
    assert parts == ["param_groups", "state", "defaults", "step", "zero_grad"]
    assert [name for name in parts if not (hasattr(theirs, name) and hasattr(ours, name))] == []


EVERY_VARIANT = """
import sys, torch
from glassformer.training.slots import OPTIMIZERS
for name in OPTIMIZERS.names():
    weights = {"blocks.0.a.weight": torch.nn.Parameter(torch.ones(3, 2)), "b": torch.nn.Parameter(torch.ones(5))}
    for optimizer in OPTIMIZERS.parse(name).build(weights, lr=0.1, weight_decay=0.1):
        for weight in weights.values():
            weight.grad = torch.ones_like(weight)
        optimizer.step()
        optimizer.zero_grad()
    print(name, "torch._dynamo" in sys.modules)
"""


def test_no_variant_imports_torchs_compiler() -> None:
    """It takes a second and more of every process that trains."""
    done = subprocess.run([sys.executable, "-c", EVERY_VARIANT], capture_output=True, text=True, check=True)
    found = dict(line.split() for line in done.stdout.splitlines())
    assert {"adamw", "sgd"} <= found.keys()
    assert set(found.values()) == {"False"}, found
