"""Schedule-free AdamW: gradients between a fast iterate and its average, which is evaluated; no decay of the rate."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, final

import torch
from pydantic import Field, Strict
from torch import Tensor, nn

from glassformer.training.slots import OPTIMIZERS, FunctionalOptimizer, OptimizerConfig, Share, decay_groups


@final
class ScheduleFree(FunctionalOptimizer):
    """The weights are y = (1 - b1) z + b1 x, where the gradient is taken; x is what is evaluated."""

    def __init__(self, groups: Iterable[Mapping[str, Any]], *, lr: float, betas: tuple[float, float], eps: float) -> None:
        super().__init__(groups, lr=lr, betas=betas, eps=eps)

    def change(self, group: dict[str, Any], weights: list[Tensor], gradients: list[Tensor]) -> None:
        (between, slow), rate, decay = group["betas"], group["lr"], group["weight_decay"]
        for y, gradient in zip(weights, gradients):
            memory = self.state[y]
            if not memory:
                memory |= {"fast": y.clone(), "average": y.clone(), "squares": torch.zeros_like(y)}
                memory |= {"step": torch.zeros(()), "rates": torch.zeros(())}
            memory["step"] += 1
            memory["rates"] += rate**2
            squares, fast, average = memory["squares"], memory["fast"], memory["average"]
            squares.mul_(slow).addcmul_(gradient, gradient, value=1 - slow)
            unbiased = squares / (1 - slow ** float(memory["step"]))
            fast.sub_(rate * (gradient / (unbiased.sqrt() + group["eps"]) + decay * y))
            average.lerp_(fast, rate**2 / float(memory["rates"]) if rate else 0.0)
            y.copy_(torch.lerp(fast, average, between))

    def averaged(self) -> dict[Tensor, Tensor]:
        return {weight: memory["average"] for weight, memory in self.state.items()}


@OPTIMIZERS.variant("schedule_free")
@final
class ScheduleFreeConfig(OptimizerConfig):
    """z <- z - r Adam(g), x <- (1 - c) x + c z, g taken at y = (1 - b1) z + b1 x; x is evaluated (Defazio et al. 2024).

    c is the share of this step's squared rate in all so far: a plain mean where the rate is constant. Take
    ``training.schedule: {kind: constant, warmup: N}``; x takes the place of a falling rate.
    """

    betas: Annotated[tuple[Share, Share], Strict(False)] = (0.9, 0.999)
    eps: float = Field(default=1e-8, gt=0)

    def build(self, parameters: Mapping[str, nn.Parameter], *, lr: float, weight_decay: float) -> list[ScheduleFree]:
        return [ScheduleFree(decay_groups(parameters, weight_decay), lr=lr, betas=self.betas, eps=self.eps)]

    def numbers_per_parameter(self, name: str, parameter: nn.Parameter) -> int:
        return 3 * parameter.numel() + 2  # z, x, the squares; two counts
