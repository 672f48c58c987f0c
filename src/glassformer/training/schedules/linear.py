"""Warm-up, then a straight line down."""

from __future__ import annotations

from typing import final

from pydantic import Field

from glassformer.training.slots import SCHEDULES, WarmUpConfig


@SCHEDULES.variant("linear")
@final
class LinearConfig(WarmUpConfig):
    """A linear warm-up, then a straight line down to ``final`` (Devlin et al. 2019)."""

    final: float = Field(default=0.0, ge=0, le=1)

    def after_warm_up(self, step: int, warmup: int, steps: int) -> float:
        done = min(1.0, (step - warmup) / max(1, steps - warmup))
        return 1 + (self.final - 1) * done
