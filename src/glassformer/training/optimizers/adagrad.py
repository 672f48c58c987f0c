"""Adagrad: each weight's own rate, falling with the gradients it has seen."""

from __future__ import annotations

from collections.abc import Mapping
from typing import final

import torch
from pydantic import Field
from torch import nn

from glassformer.training.slots import OPTIMIZERS, OptimizerConfig, decay_groups


@OPTIMIZERS.variant("adagrad")
@final
class AdagradConfig(OptimizerConfig):
    """Each weight's rate falls with the sum of its squared gradients (Duchi et al. 2011)."""

    eps: float = Field(default=1e-10, gt=0)

    def build(self, parameters: Mapping[str, nn.Parameter], *, lr: float, weight_decay: float) -> list[torch.optim.Optimizer]:
        return [torch.optim.Adagrad(decay_groups(parameters, weight_decay), lr=lr, eps=self.eps)]

    def numbers_per_parameter(self, name: str, parameter: nn.Parameter) -> int:
        return parameter.numel() + 1  # the sum of squares, and how many steps were taken
