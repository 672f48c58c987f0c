"""Nothing after the step: the weights stay as the optimizer left them."""

from __future__ import annotations

from typing import final

from glassformer.training.slots import AFTER_STEPS, AfterStepConfig


@AFTER_STEPS.variant("none")
@final
class NothingConfig(AfterStepConfig):
    """The weights as the optimizer left them."""
