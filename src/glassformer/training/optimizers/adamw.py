"""AdamW: Adam with decoupled weight decay."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, final

from pydantic import Field, Strict
from torch import nn

from glassformer.training.adamw_update import AdamW
from glassformer.training.slots import OPTIMIZERS, OptimizerConfig, Share, decay_groups


@OPTIMIZERS.variant("adamw")
@final
class AdamWConfig(OptimizerConfig):
    """Adam with decoupled weight decay on matrices (Loshchilov and Hutter 2019)."""

    betas: Annotated[tuple[Share, Share], Strict(False)] = (0.9, 0.95)
    eps: float = Field(default=1e-8, gt=0)

    def build(self, parameters: Mapping[str, nn.Parameter], *, lr: float, weight_decay: float) -> list[AdamW]:
        return [AdamW(decay_groups(parameters, weight_decay), lr=lr, betas=self.betas, eps=self.eps)]

    def numbers_per_parameter(self, name: str, parameter: nn.Parameter) -> int:
        return 2 * parameter.numel() + 1  # two moments, and how many steps were taken
