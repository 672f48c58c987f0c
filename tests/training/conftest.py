"""A model small enough to train in a blink, and what a step needs around it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from glassformer.data.batches import Batch
from glassformer.foundation.runtime import Runtime
from glassformer.model.config import ModelConfig
from glassformer.model.transformer import build_model
from glassformer.objectives.next_token import NextTokenConfig
from glassformer.training.config import TrainingConfig
from glassformer.training.optimizer_set import OptimizerSet
from glassformer.training.step import TrainingLoss, TrainStep

VOCABULARY, CONTEXT = 11, 7


@pytest.fixture
def rng() -> torch.Generator:
    return torch.Generator().manual_seed(0)


@pytest.fixture
def make_step() -> Callable[..., TrainStep]:
    """``make_step(model={...}, **training)``: a step of a fresh model on the CPU in float32."""

    def make(model: dict[str, Any] | None = None, seed: int = 3, **training: Any) -> TrainStep:
        choices = {"width": 12, "heads": 3, "layers": 2, "context": CONTEXT, **(model or {})}
        config = TrainingConfig.parse({"steps": 10, "batch_size": 4, **training})
        built = build_model(ModelConfig.parse(choices), VOCABULARY, seed=seed)
        runtime = Runtime(torch.device("cpu"), "float32", 1)
        loss = TrainingLoss(built, NextTokenConfig(), runtime, smoothing=config.label_smoothing)
        return TrainStep(loss, OptimizerSet(config, built), config, runtime, seed)

    return make


class SomeBatches:
    """The batch of a step is a function of the step."""

    def __init__(self, rows: int = 4) -> None:
        self.rows, self.asked = rows, []

    def batch(self, step: int) -> Batch:
        self.asked.append(step)
        rng = torch.Generator().manual_seed(1000 + step)
        windows = torch.randint(VOCABULARY, (self.rows, CONTEXT + 1), generator=rng)
        return Batch(ids=windows[:, :-1], targets=windows[:, 1:].clone())


@pytest.fixture
def some_batches() -> type[SomeBatches]:
    return SomeBatches
