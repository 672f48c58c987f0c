"""Warm-up, then a straight line down."""

from __future__ import annotations

from typing import final

from pydantic import Field

from glassformer.training.slots import SCHEDULES, ScheduleConfig, warm_up, warm_up_length


@SCHEDULES.variant("linear")
@final
class LinearConfig(ScheduleConfig):
    """A linear warm-up, then a straight line down to ``final`` (Devlin et al. 2019)."""

    warmup: int | None = Field(default=None, ge=0)
    final: float = Field(default=0.0, ge=0, le=1)

    def lr_multiplier(self, step: int, steps: int) -> float:
        warmup = warm_up_length(self.warmup, steps)
        if step < warmup:
            return warm_up(step, warmup)
        done = min(1.0, (step - warmup) / max(1, steps - warmup))
        return 1 + (self.final - 1) * done
