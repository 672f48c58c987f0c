"""Stochastic gradient descent with momentum."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Self, final

import torch
from pydantic import Field, model_validator
from torch import nn

from glassformer.training.slots import OPTIMIZERS, OptimizerConfig, decay_groups


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

    def build(self, parameters: Mapping[str, nn.Parameter], *, lr: float, weight_decay: float) -> list[torch.optim.Optimizer]:
        groups = decay_groups(parameters, weight_decay)
        return [torch.optim.SGD(groups, lr=lr, momentum=self.momentum, nesterov=self.nesterov)]

    def numbers_per_parameter(self, name: str, parameter: nn.Parameter) -> int:
        return parameter.numel() if self.momentum else 0
