"""AdamW: Adam with decoupled weight decay."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, final

from pydantic import Field, Strict
from torch import nn

from glassformer.training.adamw_update import AdamW
from glassformer.training.slots import OPTIMIZERS, OptimizerConfig, Share, decay_groups, depth_from_top


@OPTIMIZERS.variant("adamw")
@final
class AdamWConfig(OptimizerConfig):
    """Adam with decoupled weight decay on matrices (Loshchilov and Hutter 2019)."""

    betas: Annotated[tuple[Share, Share], Strict(False)] = (0.9, 0.95)
    eps: float = Field(default=1e-8, gt=0)
    layer_decay: float = Field(default=1.0, gt=0, le=1)
    """Each layer's rate as a multiple of the rate of the layer above it (the head has ``training.lr``); 1: one rate for all.

    Without effect where no trained weight belongs to a layer (a head, a prompt or a prefix on a frozen encoder)."""

    def build(self, parameters: Mapping[str, nn.Parameter], *, lr: float, weight_decay: float) -> list[AdamW]:
        return [AdamW(self._groups(parameters, lr, weight_decay), lr=lr, betas=self.betas, eps=self.eps)]

    def _groups(self, parameters: Mapping[str, nn.Parameter], lr: float, weight_decay: float) -> list[dict[str, object]]:
        if self.layer_decay == 1:
            return decay_groups(parameters, weight_decay)
        by_depth: dict[int, dict[str, nn.Parameter]] = {}
        for depth, (name, parameter) in zip(depth_from_top(list(parameters)), parameters.items()):
            by_depth.setdefault(depth, {})[name] = parameter
        return [
            {**group, "lr": lr * self.layer_decay**depth}
            for depth, layer in sorted(by_depth.items())
            for group in decay_groups(layer, weight_decay)
        ]

    def numbers_per_parameter(self, name: str, parameter: nn.Parameter) -> int:
        return 2 * parameter.numel() + 1  # two moments, and how many steps were taken
