"""Adagrad: each weight's own rate, falling with the gradients it has seen."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, final

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.optim.adagrad import adagrad

from glassformer.training.slots import OPTIMIZERS, FunctionalOptimizer, OptimizerConfig, decay_groups


@final
class Adagrad(FunctionalOptimizer):
    """What ``torch.optim.Adagrad`` computes, bit for bit. Remembers every weight from the start, as torch's does."""

    def __init__(self, groups: Iterable[Mapping[str, Any]], *, lr: float, eps: float) -> None:
        super().__init__(groups, lr=lr, eps=eps)
        for group in self.param_groups:
            for weight in group["params"]:
                self.state[weight].update(step=torch.tensor(0.0), sum=torch.zeros_like(weight))

    def change(self, group: dict[str, Any], weights: list[Tensor], gradients: list[Tensor]) -> None:
        adagrad(
            weights,
            gradients,
            [self.state[weight]["sum"] for weight in weights],
            [self.state[weight]["step"] for weight in weights],
            lr=group["lr"],
            weight_decay=group["weight_decay"],
            lr_decay=0.0,
            eps=group["eps"],
            maximize=False,
        )


@OPTIMIZERS.variant("adagrad")
@final
class AdagradConfig(OptimizerConfig):
    """Each weight's rate falls with the sum of its squared gradients (Duchi et al. 2011)."""

    eps: float = Field(default=1e-10, gt=0)

    def build(self, parameters: Mapping[str, nn.Parameter], *, lr: float, weight_decay: float) -> list[Adagrad]:
        return [Adagrad(decay_groups(parameters, weight_decay), lr=lr, eps=self.eps)]

    def numbers_per_parameter(self, name: str, parameter: nn.Parameter) -> int:
        return parameter.numel() + 1  # the sum of squares, and how many steps were taken
