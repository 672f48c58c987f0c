"""Stochastic gradient descent with momentum."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Self, final

from pydantic import Field, model_validator
from torch import Tensor, nn
from torch.optim.sgd import sgd

from glassformer.training.slots import OPTIMIZERS, FunctionalOptimizer, OptimizerConfig, decay_groups


@final
class SGD(FunctionalOptimizer):
    """What ``torch.optim.SGD`` computes, bit for bit."""

    def __init__(self, groups: Iterable[Mapping[str, Any]], *, lr: float, momentum: float, nesterov: bool) -> None:
        super().__init__(groups, lr=lr, momentum=momentum, nesterov=nesterov)

    def change(self, group: dict[str, Any], weights: list[Tensor], gradients: list[Tensor]) -> None:
        momenta: list[Tensor | None] = []
        if group["momentum"]:
            momenta = [self.state[weight].get("momentum_buffer") for weight in weights]
        sgd(
            weights,
            gradients,
            momenta,
            weight_decay=group["weight_decay"],
            momentum=group["momentum"],
            lr=group["lr"],
            dampening=0.0,
            nesterov=group["nesterov"],
            maximize=False,
        )
        for weight, momentum in zip(weights, momenta):  # the first step makes them
            self.state[weight]["momentum_buffer"] = momentum


@OPTIMIZERS.variant("sgd")
@final
class SGDConfig(OptimizerConfig):
    """Gradient descent with momentum (Polyak 1964)."""

    momentum: float = Field(default=0.9, ge=0, lt=1)
    nesterov: bool = False

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.nesterov and not self.momentum:
            raise ValueError("nesterov=true needs a momentum above 0; set one, or leave nesterov out.")
        return self

    def build(self, parameters: Mapping[str, nn.Parameter], *, lr: float, weight_decay: float) -> list[SGD]:
        groups = decay_groups(parameters, weight_decay)
        return [SGD(groups, lr=lr, momentum=self.momentum, nesterov=self.nesterov)]

    def numbers_per_parameter(self, name: str, parameter: nn.Parameter) -> int:
        return parameter.numel() if self.momentum else 0
