"""Optimizers as one: scheduled, saved and loaded to the bit, their bytes known beforehand."""

from __future__ import annotations

import pytest
import torch
from tests.refusals import refused

from glassformer.foundation.errors import DamagedCheckpoint, UsageError
from glassformer.training.config import TrainingConfig
from glassformer.training.optimizer_set import OptimizerSet, optimizer_bytes
from glassformer.training.slots import OPTIMIZERS

EVERY = [{"kind": name} for name in OPTIMIZERS.names()] + [{"kind": "sgd", "momentum": 0.0}, {"kind": "sgd", "nesterov": True}]


def all_tensors(step) -> dict[str, torch.Tensor]:
    weights = {name: parameter.detach().clone() for name, parameter in step.loss_module.network.named_parameters()}
    return {**weights, **{name: tensor.clone() for name, tensor in step.optimizers.tensors().items()}}


@pytest.mark.parametrize("optimizer", EVERY, ids=str)
def test_saved_loaded_and_stepped_on_the_bits_are_equal(make_step, some_batches, optimizer: dict[str, object]) -> None:
    """Three steps, a move into a fresh process's objects, three more: the same as six."""
    unbroken, batches = make_step(optimizer=optimizer, model={"dropout": 0.1}), some_batches()
    for number in range(3):
        unbroken(batches.batch(number), number, 1 / (number + 1))
    weights = {name: parameter.detach().clone() for name, parameter in unbroken.loss_module.network.named_parameters()}
    kept = {name: tensor.clone() for name, tensor in unbroken.optimizers.tensors().items()}

    resumed = make_step(optimizer=optimizer, model={"dropout": 0.1}, seed=3)
    for name, parameter in resumed.loss_module.network.named_parameters():
        parameter.data.copy_(weights[name])
    resumed.optimizers.load(kept)
    for number in range(3, 6):
        unbroken(batches.batch(number), number, 1 / (number + 1))
        resumed(batches.batch(number), number, 1 / (number + 1))
    expected, got = all_tensors(unbroken), all_tensors(resumed)
    assert expected.keys() == got.keys()
    assert [name for name in expected if not torch.equal(expected[name], got[name])] == []


@pytest.mark.parametrize("optimizer", EVERY, ids=str)
def test_without_its_memory_a_resumed_optimizer_goes_elsewhere(make_step, some_batches, optimizer) -> None:
    """The test above would notice."""
    if optimizer == {"kind": "sgd", "momentum": 0.0}:
        pytest.skip("plain gradient descent remembers nothing")
    step, batches = make_step(optimizer=optimizer), some_batches()
    step(batches.batch(0), 0, 1.0)
    forgetful = make_step(optimizer=optimizer)
    for own, other in zip(forgetful.loss_module.network.parameters(), step.loss_module.network.parameters()):
        own.data.copy_(other.data)
    step(batches.batch(1), 1, 1.0)
    forgetful(batches.batch(1), 1, 1.0)
    assert any(
        not torch.equal(a, b) for a, b in zip(step.loss_module.network.parameters(), forgetful.loss_module.network.parameters())
    )


@pytest.mark.parametrize("optimizer", EVERY, ids=str)
@pytest.mark.parametrize("bias", [True, False])
def test_bytes_are_known_beforehand(make_step, some_batches, optimizer: dict[str, object], bias: bool) -> None:
    step = make_step(optimizer=optimizer, model={"bias": bias, "head": "untied"})
    step(some_batches().batch(0), 0, 1.0)
    real = sum(tensor.nbytes for tensor in step.optimizers.tensors().values())
    assert optimizer_bytes(step.config, step.loss_module.network) == real


@pytest.mark.parametrize("name", OPTIMIZERS.names())
def test_the_rate_follows_the_factor(make_step, name: str) -> None:
    optimizers = make_step(optimizer=name, lr=0.2).optimizers
    for factor in (0.5, 1.0, 0.25):
        optimizers.set_lr_multiplier(factor)
        rates = [group["lr"] for optimizer in optimizers.optimizers for group in optimizer.param_groups]
        assert rates == pytest.approx([0.2 * factor] * len(rates))


@pytest.mark.parametrize("name", OPTIMIZERS.names())
def test_the_list_of_what_decays(make_step, name: str) -> None:
    step = make_step(optimizer=name, weight_decay=0.1)
    lists = step.optimizers.decay_list()
    names = [name for name, _ in step.loss_module.network.named_parameters()]
    assert sorted([*lists["decays"], *lists["does not decay"]]) == sorted(names)  # each once
    assert all(name.endswith("weight") and "norm" not in name for name in lists["decays"])
    assert "embedding.weight" in lists["decays"]
    assert "blocks.0.attention_norm.weight" in lists["does not decay"]
    nothing = make_step(optimizer=name, weight_decay=0.0).optimizers.decay_list()
    assert nothing["decays"] == []


@pytest.mark.parametrize("name", OPTIMIZERS.names())
def test_decay_shrinks_matrices_and_leaves_vectors_alone(make_step, name: str) -> None:
    """With gradients of zero only decay acts."""
    step = make_step(optimizer=name, weight_decay=0.5, lr=1e-3)
    before = {name: parameter.detach().clone() for name, parameter in step.loss_module.network.named_parameters()}
    for parameter in step.loss_module.network.parameters():
        parameter.grad = torch.zeros_like(parameter)
    step.optimizers.step()
    for name, parameter in step.loss_module.network.named_parameters():
        if parameter.ndim < 2:
            assert torch.equal(parameter, before[name]), name
        elif before[name].any():
            assert parameter.norm() < before[name].norm(), name


def test_every_parameter_is_trained_once(make_step) -> None:
    step = make_step()
    assert list(step.optimizers.parameters) == [name for name, _ in step.loss_module.network.named_parameters()]


def test_frozen_parameters_are_left_out(make_step) -> None:
    model = make_step().loss_module.network
    model.embedding.weight.requires_grad_(False)
    optimizers = OptimizerSet(TrainingConfig.parse({"steps": 1}), model)
    assert "embedding.weight" not in optimizers.parameters
    assert "embedding.weight" not in [name for names in optimizers.decay_list().values() for name in names]
    assert optimizer_bytes(TrainingConfig.parse({"steps": 1}), model) == 4 * sum(
        2 * parameter.numel() + 1 for parameter in optimizers.parameters.values()
    )


def test_a_memory_of_another_model_is_refused(make_step) -> None:
    with refused(DamagedCheckpoint, "unknown-parameter", "blocks.9.x"):
        make_step().optimizers.load({"blocks.9.x/exp_avg": torch.zeros(2)})


def test_a_model_without_anything_to_train_is_refused():
    model = torch.nn.Linear(2, 3).requires_grad_(False)
    with refused(UsageError, "nothing-to-train"):
        OptimizerSet(TrainingConfig(steps=1), model)
