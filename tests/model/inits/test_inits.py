"""Initialisations: standard deviations by role, layer and width; the rates of muP."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from glassformer.model.config import ModelConfig
from glassformer.model.transformer import Transformer, build_model
from glassformer.training.config import TrainingConfig
from glassformer.training.optimizer_set import OptimizerSet

SIZES: dict[str, Any] = {"width": 96, "heads": 3, "layers": 4, "context": 7}


def model_of(init: Any, **sizes: Any) -> Transformer:
    return build_model(ModelConfig.parse({**SIZES, **sizes, "init": init}), 11, seed=1)


def std(tensor: torch.Tensor) -> float:
    return float(tensor.detach().std())


@pytest.mark.parametrize(
    ("residual", "expected"),
    [
        ("depth", [0.1 / math.sqrt(8)] * 2),
        ("layer", [0.1 / math.sqrt(2), 0.1 / math.sqrt(8)]),
        ("plain", [0.1] * 2),
        ("zero", [0] * 2),
    ],
)
def test_what_writes_into_the_stream(residual: str, expected: list[float]) -> None:
    model = model_of({"kind": "normal", "std": 0.1, "residual": residual})
    found = [std(model.blocks[layer].feedforward.down.weight) for layer in (0, 3)]
    assert found == pytest.approx(expected, rel=0.03)
    assert std(model.blocks[0].feedforward.up.weight) == pytest.approx(0.1, rel=0.03)


def test_the_default_is_what_it_was() -> None:
    default, named = model_of("normal"), build_model(ModelConfig.parse(SIZES), 11, seed=1)
    assert all(torch.equal(one, other) for one, other in zip(default.state_dict().values(), named.state_dict().values()))
    assert ModelConfig.parse({**SIZES, "init": "normal"}).non_defaults() == ModelConfig.parse(SIZES).non_defaults()


def test_mup_starts_and_learns_by_width() -> None:
    model = model_of({"kind": "mup", "base_width": 24})  # four times as wide
    assert std(model.blocks[0].feedforward.up.weight) == pytest.approx(0.02 / 2, rel=0.03)
    assert std(model.embedding.weight) == pytest.approx(0.02, rel=0.06)
    optimizers = OptimizerSet(TrainingConfig.parse({"steps": 1, "lr": 0.1}), model)
    rates = {
        name: group["lr"]
        for optimizer in optimizers.optimizers
        for group in optimizer.param_groups
        for name, parameter in optimizers.parameters.items()
        if any(parameter is one for one in group["params"])
    }
    assert rates["blocks.0.feedforward.up.weight"] == pytest.approx(0.025)
    assert rates["embedding.weight"] == rates["blocks.0.feedforward.up.bias"] == rates["positions.table.weight"] == 0.1
    assert set(rates) == set(optimizers.parameters)
    optimizers.set_lr_multiplier(0.5)
    assert {group["lr"] for optimizer in optimizers.optimizers for group in optimizer.param_groups} == {0.05, 0.0125}


def test_at_the_base_width_mup_is_the_default() -> None:
    model, plain = model_of({"kind": "mup", "base_width": 96}), build_model(ModelConfig.parse(SIZES), 11, seed=1)
    assert all(torch.equal(one, other) for one, other in zip(model.state_dict().values(), plain.state_dict().values()))
    assert model.lr_factors() == {}


def test_xavier_follows_inputs_and_outputs() -> None:
    model = model_of("xavier")
    down = model.blocks[0].feedforward.down.weight
    assert std(down) == pytest.approx(math.sqrt(2 / sum(down.shape)), rel=0.03)
    assert std(model.embedding.weight) == pytest.approx(math.sqrt(2 / (11 + 96)), rel=0.1)
