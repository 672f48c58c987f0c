"""Warm-up, then a half cosine down."""

from __future__ import annotations

import math
from typing import final

from pydantic import Field

from glassformer.training.slots import SCHEDULES, ScheduleConfig, warm_up, warm_up_length


@SCHEDULES.variant("cosine")
@final
class CosineConfig(ScheduleConfig):
    """A linear warm-up, then half a cosine down to ``final`` (Loshchilov and Hutter 2017)."""

    warmup: int | None = Field(default=None, ge=0)
    final: float = Field(default=0.1, ge=0, le=1)

    def lr_multiplier(self, step: int, steps: int) -> float:
        warmup = warm_up_length(self.warmup, steps)
        if step < warmup:
            return warm_up(step, warmup)
        done = min(1.0, (step - warmup) / max(1, steps - warmup))
        return self.final + (1 - self.final) * 0.5 * (1 + math.cos(math.pi * done))
