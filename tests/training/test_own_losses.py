"""A part's own losses in a training step: trained with their weight, logged apart, the same however the batch is cut."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import glassformer as gf
from glassformer.data.batches import Batch
from glassformer.foundation.runtime import Runtime
from glassformer.model.config import ModelConfig
from glassformer.model.transformer import Transformer, build_model
from glassformer.objectives.next_token import NextTokenConfig
from glassformer.training.config import TrainingConfig
from glassformer.training.optimizer_set import OptimizerSet
from glassformer.training.step import TrainingLoss, TrainStep

SIZES: dict[str, Any] = {"width": 12, "heads": 3, "layers": 2, "context": 8}
RUNTIME = Runtime(torch.device("cpu"), "float32", 1)


def model_of(**settings: Any) -> Transformer:
    return build_model(ModelConfig.parse({**SIZES, "feedforward": {"kind": "experts", "experts": 3, **settings}}), 11, seed=1)


def step_of(network: Transformer, **training: Any) -> TrainStep:
    config = TrainingConfig.parse({"steps": 4, "batch_size": 6, **training})
    loss = TrainingLoss(network, NextTokenConfig(), RUNTIME)
    return TrainStep(loss, OptimizerSet(config, network), config, RUNTIME, seed=3)


def batch() -> Batch:
    ids_BT = torch.randint(11, (6, 9), generator=torch.Generator().manual_seed(5))
    return Batch(ids=ids_BT[:, :-1], targets=ids_BT[:, 1:])


def test_the_loss_is_the_objectives_and_the_gradient_is_of_both() -> None:
    with_terms, without = step_of(model_of()).measure(batch()), step_of(model_of(balance=0.0, router_z=0.0)).measure(batch())
    torch.testing.assert_close(with_terms.loss, without.loss, rtol=0, atol=0)
    assert with_terms.own is not None
    assert without.own is not None
    assert (with_terms.own > 0).all()
    assert not without.own.any()
    # balanced experts give balance 1, and nearly equal scores of three give log(3)^2; each for two layers
    torch.testing.assert_close(with_terms.own, torch.tensor([0.01 * 2, 0.001 * 2 * 1.0986**2]), rtol=0.1, atol=0.0)
    assert not torch.equal(with_terms.grad_norm, without.grad_norm)


def test_cutting_the_batch_changes_nothing() -> None:
    ways: list[dict[str, Any]] = [{}, {"accumulate": 3}, {"pieces": 2}, {"pieces": 2, "accumulate": 3}]
    whole, *cut = (step_of(model_of(balance=1.0), **how).measure(batch()) for how in ways)
    for other in cut:
        for one, each in zip(whole, other, strict=True):
            torch.testing.assert_close(one, each, rtol=1e-5, atol=1e-7)


def test_nothing_is_collected_outside_a_step() -> None:
    network = model_of()
    step_of(network).measure(batch())
    assert network.collecting is None
    assert build_model(ModelConfig.parse(SIZES), 11, seed=1).own_losses == ()


def test_the_compiled_form_gives_the_same() -> None:
    loss = TrainingLoss(model_of(), NextTokenConfig(), RUNTIME)
    compiled = torch.compile(loss, backend="eager", fullgraph=True)
    torch.testing.assert_close(compiled(batch().tensors), loss(batch().tensors))


def test_they_are_logged_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLASSFORMER_CACHE", str(tmp_path / "cache"))
    text = tmp_path / "text.txt"
    text.write_text("the cat sat on a mat and then it ran to see an old red hen. " * 40, encoding="utf-8")
    run = gf.train(
        {
            "data": {"path": str(text)},
            "model": {**SIZES, "feedforward": {"kind": "experts", "experts": 3}},
            "training": {"steps": 3, "batch_size": 4, "device": "cpu"},
        },
        out=tmp_path / "run",
        threads=1,
    )
    rows = [record for record in run.records() if "grad_norm" in record]
    assert len(rows) == 3
    assert all(record["own.balance"] > 0 and record["own.router_z"] > 0 for record in rows)
    assert not any(name.startswith("own") for name in run.evaluate().metrics)
