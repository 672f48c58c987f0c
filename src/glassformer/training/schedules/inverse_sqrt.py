"""Warm-up, then the inverse square root of the step, as the original Transformer was trained."""

from __future__ import annotations

import math
from typing import final

from glassformer.training.slots import SCHEDULES, WarmUpConfig


@SCHEDULES.variant("inverse-sqrt")
@final
class InverseSqrtConfig(WarmUpConfig):
    """A linear warm-up, then down with the inverse square root of the step (Vaswani et al. 2017).

    Their rate is width^-0.5 * warmup^-0.5 at its peak, which is ``training.lr`` here: 7e-4 for a width of 512 and 4,000 steps.
    """

    def after_warm_up(self, step: int, warmup: int, steps: int) -> float:
        return math.sqrt((warmup + 1) / (step + 1))
