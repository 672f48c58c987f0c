"""The same rate throughout, after a warm-up."""

from __future__ import annotations

from typing import final

from pydantic import Field

from glassformer.training.slots import SCHEDULES, ScheduleConfig, warm_up


@SCHEDULES.variant("constant")
@final
class ConstantConfig(ScheduleConfig):
    """A linear warm-up, then the same rate to the end."""

    warmup: int = Field(default=0, ge=0)

    def lr_multiplier(self, step: int, steps: int) -> float:
        return warm_up(step, self.warmup) if step < self.warmup else 1.0
