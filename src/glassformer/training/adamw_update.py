"""AdamW's step: torch's own function on our groups of weights, by torch's ``fused=True`` kernel where there is one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, final

import torch
from torch import Tensor
from torch.optim.adamw import adamw

from glassformer.training.optimizer import FunctionalOptimizer


@final
class AdamW(FunctionalOptimizer):
    """What ``torch.optim.AdamW`` computes, bit for bit. ``lr`` may be a tensor, as a captured step needs it."""

    def __init__(self, groups: Iterable[Mapping[str, Any]], *, lr: float, betas: tuple[float, float], eps: float) -> None:
        super().__init__(groups, lr=lr, betas=betas, eps=eps, capturable=False)
        fused = all(weight.device.type in ("cpu", "cuda") for group in self.param_groups for weight in group["params"])
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
