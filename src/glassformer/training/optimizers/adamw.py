"""AdamW: Adam with decoupled weight decay, by torch's ``fused=True`` kernel where there is one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, final

import torch
from pydantic import Field, Strict
from torch import Tensor, nn
from torch.optim.adamw import adamw

from glassformer.training.slots import (
    OPTIMIZERS,
    FunctionalOptimizer,
    OptimizerConfig,
    Share,
    decay_groups,
    depth_from_top,
)


@final
class AdamW(FunctionalOptimizer):
    """What ``torch.optim.AdamW`` computes, bit for bit. ``lr`` may be a tensor, as a captured step needs it."""

    def __init__(self, groups: Iterable[Mapping[str, Any]], *, lr: float, betas: tuple[float, float], eps: float) -> None:
        super().__init__(groups, lr=lr, betas=betas, eps=eps, capturable=False)
        every = [weight for group in self.param_groups for weight in group["params"]]
        fused = all(weight.device.type in ("cpu", "cuda") and weight.is_floating_point() for weight in every)
        for group in self.param_groups:
            group["fused"] = fused

    def change(self, group: dict[str, Any], weights: list[Tensor], gradients: list[Tensor]) -> None:
        memories = [self._memory(weight, on_device=group["fused"] or group["capturable"]) for weight in weights]
        beta1, beta2 = group["betas"]
        adamw(
            weights,
            gradients,
            [memory["exp_avg"] for memory in memories],
            [memory["exp_avg_sq"] for memory in memories],
            [],
            [memory["step"] for memory in memories],
            fused=group["fused"],
            capturable=group["capturable"],
            amsgrad=False,
            beta1=beta1,
            beta2=beta2,
            lr=group["lr"],
            weight_decay=group["weight_decay"],
            eps=group["eps"],
            maximize=False,
        )

    def _memory(self, weight: Tensor, *, on_device: bool) -> dict[str, Tensor]:
        """Two running means and the number of steps, by the names that torch gives them and checkpoints keep."""
        memory = self.state[weight]
        if not memory:
            memory["step"] = torch.zeros((), dtype=torch.float32, device=weight.device if on_device else "cpu")
            memory["exp_avg"] = torch.zeros_like(weight)
            memory["exp_avg_sq"] = torch.zeros_like(weight)
        return memory


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
