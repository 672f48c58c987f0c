"""Plain optimizers: a group goes before the settings of all, weights without a gradient rest, no compiler is imported."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from glassformer.training.optimizer import FunctionalOptimizer, Optimizer
from glassformer.training.optimizers.adamw import AdamWConfig


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
