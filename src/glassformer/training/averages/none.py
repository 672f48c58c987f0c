"""No average: the weights that are trained are evaluated and saved."""

from __future__ import annotations

from typing import final

from glassformer.training.slots import AVERAGES, AfterStepConfig


@AVERAGES.variant("none")
@final
class NoAverageConfig(AfterStepConfig):
    """The weights as they are trained."""
