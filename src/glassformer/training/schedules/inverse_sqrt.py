"""Warm-up, then the inverse square root of the step, as the original Transformer was trained."""

from __future__ import annotations

import math
from typing import final

from pydantic import Field

from glassformer.training.slots import SCHEDULES, ScheduleConfig, warm_up, warm_up_length


@SCHEDULES.variant("inverse-sqrt")
@final
class InverseSqrtConfig(ScheduleConfig):
    """A linear warm-up, then down with the inverse square root of the step (Vaswani et al. 2017).

    Their rate is width^-0.5 * warmup^-0.5 at its peak, which is ``training.lr`` here: 7e-4 for a width of 512 and 4,000 steps.
    """

    warmup: int | None = Field(default=None, ge=0)

    def lr_multiplier(self, step: int, steps: int) -> float:
        warmup = warm_up_length(self.warmup, steps)
        return warm_up(step, warmup) if step < warmup else math.sqrt((warmup + 1) / (step + 1))
