"""The same rate throughout, after a warm-up."""

from __future__ import annotations

from typing import final

from pydantic import Field

from glassformer.training.slots import SCHEDULES, WarmUpConfig


@SCHEDULES.variant("constant")
@final
class ConstantConfig(WarmUpConfig):
    """A linear warm-up, then the same rate to the end."""

    warmup: int = Field(default=0, ge=0)

    def after_warm_up(self, step: int, warmup: int, steps: int) -> float:
        return 1.0
