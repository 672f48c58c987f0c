"""Warm-up, then a half cosine down."""

from __future__ import annotations

import math
from typing import final

from pydantic import Field

from glassformer.training.slots import SCHEDULES, WarmUpConfig


@SCHEDULES.variant("cosine")
@final
class CosineConfig(WarmUpConfig):
    """A linear warm-up, then half a cosine down to ``final`` (Loshchilov and Hutter 2017)."""

    final: float = Field(default=0.1, ge=0, le=1)

    def after_warm_up(self, step: int, warmup: int, steps: int) -> float:
        done = min(1.0, (step - warmup) / max(1, steps - warmup))
        return self.final + (1 - self.final) * 0.5 * (1 + math.cos(math.pi * done))
