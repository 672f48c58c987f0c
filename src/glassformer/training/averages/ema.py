"""An exponential moving average of the weights, which is evaluated and saved in their place."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, final

import torch
from pydantic import Field
from torch import Tensor, nn

from glassformer.training.slots import AVERAGES, AfterStep, AfterStepConfig


@AVERAGES.variant("ema")
@final
class MovingAverageConfig(AfterStepConfig):
    """m <- d m + (1 - d) w after every step; m / (1 - d^t) is evaluated and saved (EMA, Polyak and Juditsky 1992).

    Both start at zero and the division takes that back, so the first average is the first step's weights. Training itself never
    reads it. Cost: one more copy of the weights.
    """

    decay: float = Field(default=0.999, ge=0, lt=1)
    """d: the average looks back over about 1 / (1 - d) steps."""

    def build(self, model: nn.Module, parameters: Mapping[str, nn.Parameter]) -> MovingAverage:
        return MovingAverage(parameters, self.decay)

    def numbers_per_parameter(self, name: str, parameter: nn.Parameter) -> int:
        return parameter.numel() + 1  # the mean and its divisor


@final
class MovingAverage(AfterStep):
    keys: ClassVar[tuple[str, ...]] = ("mean", "divisor")

    def __init__(self, parameters: Mapping[str, nn.Parameter], decay: float) -> None:
        super().__init__()
        self.weights: list[Tensor] = list(parameters.values())
        self.decay = decay

    @torch.no_grad()
    def __call__(self) -> None:
        for weight in self.weights:
            if not self.state[weight]:
                self.state[weight] = {"mean": torch.zeros_like(weight), "divisor": torch.zeros((), device=weight.device)}
        memories = [self.state[weight] for weight in self.weights]
        torch._foreach_lerp_([memory["mean"] for memory in memories], self.weights, 1.0 - self.decay)
        divisors = [memory["divisor"] for memory in memories]
        torch._foreach_mul_(divisors, self.decay)
        torch._foreach_add_(divisors, 1.0 - self.decay)

    def averaged(self) -> dict[Tensor, Tensor]:
        """The weights themselves before the first step: capturing a CUDA graph makes the state, and sets it to zero again."""
        return {
            weight: torch.where(memory["divisor"] > 0, memory["mean"] / memory["divisor"], weight.detach())
            for weight, memory in self.state.items()
        }
