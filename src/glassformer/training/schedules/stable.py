"""Warm-up, a stable rate, then a decay at the end."""

from __future__ import annotations

from typing import final

from pydantic import Field

from glassformer.training.slots import SCHEDULES, WarmUpConfig


@SCHEDULES.variant("warmup-stable-decay")
@final
class StableConfig(WarmUpConfig):
    """A warm-up, a constant rate, then a straight line down over the last ``decay`` of the run (Hu et al. 2024)."""

    decay: float = Field(default=0.2, ge=0, le=1)
    final: float = Field(default=0.0, ge=0, le=1)

    def after_warm_up(self, step: int, warmup: int, steps: int) -> float:
        falling = self.decay * steps
        done = max(0.0, step - (steps - falling)) / max(1.0, falling)
        return 1 + (self.final - 1) * min(1.0, done)
