"""Lion: steps by the sign of a running mean of gradients."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, final

import torch
from pydantic import Strict
from torch import Tensor, nn

from glassformer.training.slots import OPTIMIZERS, FunctionalOptimizer, OptimizerConfig, Share, decay_groups


@final
class Lion(FunctionalOptimizer):
    """The direction is the sign of b1 m + (1 - b1) g; afterwards m becomes b2 m + (1 - b2) g."""

    def __init__(self, groups: Iterable[Mapping[str, Any]], *, lr: float, betas: tuple[float, float]) -> None:
        super().__init__(groups, lr=lr, betas=betas)

    def change(self, group: dict[str, Any], weights: list[Tensor], gradients: list[Tensor]) -> None:
        for weight, gradient in zip(weights, gradients):
            mean = self.state[weight].setdefault("mean", torch.zeros_like(weight))
            fast, slow = group["betas"]
            direction = torch.lerp(gradient, mean, fast).sign()
            weight.mul_(1 - group["lr"] * group["weight_decay"]).sub_(group["lr"] * direction)
            mean.lerp_(gradient, 1 - slow)


@OPTIMIZERS.variant("lion")
@final
class LionConfig(OptimizerConfig):
    """Steps of equal size in the direction sign(b1 m + (1 - b1) g), m a running mean of gradients (Chen et al. 2023).

    Half of AdamW's memory. The paper advises a rate 3 to 10 times smaller than AdamW's, and a decay so much larger.
    """

    betas: Annotated[tuple[Share, Share], Strict(False)] = (0.9, 0.99)

    def build(self, parameters: Mapping[str, nn.Parameter], *, lr: float, weight_decay: float) -> list[Lion]:
        return [Lion(decay_groups(parameters, weight_decay), lr=lr, betas=self.betas)]

    def numbers_per_parameter(self, name: str, parameter: nn.Parameter) -> int:
        return parameter.numel()
