"""Muon for the matrices inside the blocks, AdamW for everything else.

Torch has a Muon too, but its products are in bf16 on every device (which some CPUs do not have) and one matrix at a time,
and it cannot be part of a captured step. Here matrices of one shape, lying or standing, go through the products together, in
float32 on a CPU and in bf16 on a GPU, and nothing waits for the host.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, final

import torch
from pydantic import Field, Strict
from torch import Tensor, nn

from glassformer.training.optimizers.adamw import AdamW
from glassformer.training.parallel.shard import cut_like, whole
from glassformer.training.slots import (
    OPTIMIZERS,
    FunctionalOptimizer,
    Optimizer,
    OptimizerConfig,
    Share,
    decay_groups,
    layer_of,
)

COEFFICIENTS = (3.4445, -4.7750, 2.0315)
"""Of the polynomial a x + b x³ + c x⁵, which drives singular values towards 1 (Jordan et al. 2024)."""
ROUNDS = 5
LIKE_ADAMW = 0.2
"""The root mean square of AdamW's steps, which ours are scaled to (Liu et al. 2025)."""


def orthogonalised(matrices_NRC: Tensor) -> Tensor:
    """About U Vᵀ of each matrix U S Vᵀ: the nearest matrix whose singular values are all 1, to within some 30 %."""
    a, b, c = COEFFICIENTS
    tall = matrices_NRC.shape[1] > matrices_NRC.shape[2]
    x = matrices_NRC.mT if tall else matrices_NRC  # the products are of the shorter side
    x = x / x.norm(dim=(1, 2), keepdim=True).clamp(min=1e-7)
    for _ in range(ROUNDS):
        squared = x @ x.mT
        factor = torch.baddbmm(squared, squared, squared, beta=b, alpha=c)  # b x² + c x⁴
        x = torch.baddbmm(x, factor, x, beta=a)  # a x + b x³ + c x⁵
    return x.mT if tall else x


@final
class Orthogonal(FunctionalOptimizer):
    """Muon's part of the optimizer. ``lr`` may be a tensor, as a captured step needs it."""

    def __init__(self, matrices: Iterable[nn.Parameter], *, lr: float, momentum: float, weight_decay: float) -> None:
        super().__init__([{"params": list(matrices)}], lr=lr, momentum=momentum, weight_decay=weight_decay, capturable=False)

    def change(self, group: dict[str, Any], weights: list[Tensor], gradients: list[Tensor]) -> None:
        momenta = [self._momentum(matrix) for matrix in weights]
        torch._foreach_lerp_(momenta, gradients, 1.0 - group["momentum"])
        ahead = torch._foreach_mul(gradients, 1.0)  # a copy: torch 2.10 lerps cut tensors only in place
        torch._foreach_lerp_(ahead, momenta, group["momentum"])  # Nesterov's look ahead
        torch._foreach_mul_(weights, 1.0 - group["lr"] * group["weight_decay"])
        alike: dict[tuple[int, int, torch.device], tuple[list[Any], list[Any]]] = defaultdict(lambda: ([], []))
        for matrix, one in zip(weights, ahead):  # of one shape, lying or standing
            rows, columns = matrix.shape
            alike[min(rows, columns), max(rows, columns), matrix.device][rows > columns].append((matrix, one))
        for (_, columns, device), (lying, standing) in alike.items():
            all_NRC = torch.stack([*(whole(one) for _, one in lying), *(whole(one).mT for _, one in standing)])
            changes_NRC = orthogonalised(all_NRC.to(torch.bfloat16) if device.type == "cuda" else all_NRC)
            changes_NRC = changes_NRC.to(all_NRC.dtype) * (group["lr"] * LIKE_ADAMW * math.sqrt(columns))
            stood_NCR = changes_NRC[len(lying) :].mT.contiguous()  # as the weights lie, or each would take a kernel of its own
            matrices = [matrix for matrix, _ in (*lying, *standing)]
            changes = [cut_like(change, matrix) for change, matrix in zip((*changes_NRC[: len(lying)], *stood_NCR), matrices)]
            torch._foreach_sub_(matrices, changes)

    def _momentum(self, matrix: Tensor) -> Tensor:
        state = self.state[matrix]
        if not state:
            state["momentum_buffer"] = torch.zeros_like(matrix)
        buffer: Tensor = state["momentum_buffer"]
        return buffer


@OPTIMIZERS.variant("muon")
@final
class MuonConfig(OptimizerConfig):
    """Orthogonalised momentum for the matrices inside blocks (Jordan et al. 2024), AdamW for the rest.

    ``training.lr`` is AdamW's; Muon's own step is matched to AdamW's size (Liu et al. 2025), so one rate serves both.
    """

    momentum: float = Field(default=0.95, ge=0, lt=1)
    betas: Annotated[tuple[Share, Share], Strict(False)] = (0.9, 0.95)
    eps: float = Field(default=1e-8, gt=0)
    lr_factor: float = Field(default=1.0, gt=0)
    """Muon's rate as a multiple of ``training.lr``."""

    def build(self, parameters: Mapping[str, nn.Parameter], *, lr: float, weight_decay: float) -> list[Optimizer]:
        matrices = [parameter for name, parameter in parameters.items() if for_muon(name, parameter)]
        others = {name: parameter for name, parameter in parameters.items() if not for_muon(name, parameter)}
        optimizers: list[Optimizer] = []
        if matrices:
            rate = lr * self.lr_factor
            optimizers.append(Orthogonal(matrices, lr=rate, momentum=self.momentum, weight_decay=weight_decay))
        if others:
            optimizers.append(AdamW(decay_groups(others, weight_decay), lr=lr, betas=self.betas, eps=self.eps))
        return optimizers

    def numbers_per_parameter(self, name: str, parameter: nn.Parameter) -> int:
        return parameter.numel() if for_muon(name, parameter) else 2 * parameter.numel() + 1


def for_muon(name: str, parameter: nn.Parameter) -> bool:
    """Matrices of the layers, also of pretrained encoders; embeddings, head, positions, biases and vectors go to AdamW."""
    return layer_of(name) is not None and parameter.ndim == 2 and "bias" not in name.rpartition(".")[2]
