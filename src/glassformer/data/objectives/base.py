"""The interface of objectives: tokens of the training split -> batches with targets, by step number."""

from __future__ import annotations

from typing import Protocol

import numpy as np
import torch

from glassformer.data.batches import Batch
from glassformer.foundation.registry import Slot, VariantConfig


class BatchesByStep(Protocol):
    """Batches that depend on (seed, step) alone."""

    @property
    def steps_per_epoch(self) -> float: ...

    def on(self, device: torch.device) -> BatchesByStep: ...

    def batch(self, step: int) -> Batch: ...


class ObjectiveConfig(VariantConfig):
    """What the model is asked to predict."""

    def batches(self, tokens_N: np.ndarray, *, context: int, batch_size: int, seed: int) -> BatchesByStep:
        raise NotImplementedError


OBJECTIVES: Slot[ObjectiveConfig] = Slot("objective", "what the model is asked to predict", "glassformer.data.objectives")
