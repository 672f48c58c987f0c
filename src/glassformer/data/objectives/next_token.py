"""The plain language model's objective."""

from __future__ import annotations

from typing import final

import numpy as np

from glassformer.data.batches import WindowBatches
from glassformer.data.objectives.base import OBJECTIVES, ObjectiveConfig


@OBJECTIVES.variant("next-token")
@final
class NextTokenConfig(ObjectiveConfig):
    """Every token of a window predicts the one after it (the plain language model)."""

    def batches(self, tokens_N: np.ndarray, *, context: int, batch_size: int, seed: int) -> WindowBatches:
        return WindowBatches(tokens_N, context=context, batch_size=batch_size, seed=seed)
