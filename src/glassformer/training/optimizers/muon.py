"""Muon for the matrices inside the blocks, AdamW for everything else."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, final

from pydantic import Field, Strict
from torch import nn

from glassformer.training.adamw_update import AdamW
from glassformer.training.optimizer import Optimizer
from glassformer.training.orthogonal import Orthogonal
from glassformer.training.slots import OPTIMIZERS, OptimizerConfig, Share, decay_groups, layer_of


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
