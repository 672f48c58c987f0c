"""Gated attention: each token opens and closes its heads' outputs."""

from __future__ import annotations

from typing import Any, ClassVar, Literal, final

import torch
from torch import Tensor, nn

from glassformer.model.attention import split_heads
from glassformer.model.dims import Dims, matmul_flops
from glassformer.model.initialisation import start
from glassformer.model.slots import OUTPUTS, HeadOutput, OutputConfig


@OUTPUTS.variant("gate")
@final
class GateConfig(OutputConfig):
    """z times sigmoid(x W): a gate for every number of every head, or one for each head (Qiu et al. 2025).

    Cost: a linear map from the width to all heads side by side, or to one number for each head.
    """

    examples: ClassVar[tuple[dict[str, Any], ...]] = ({}, {"per": "head"})

    per: Literal["element", "head"] = "element"

    def build(self, dims: Dims) -> Gate:
        return Gate(dims, self._gates(dims))

    def flops(self, dims: Dims, batch: int, length: int) -> int:
        return matmul_flops(batch * length, dims.width, self._gates(dims))

    def _gates(self, dims: Dims) -> int:
        return dims.attention_width if self.per == "element" else dims.heads


@final
class Gate(HeadOutput):
    def __init__(self, dims: Dims, gates: int) -> None:
        super().__init__()
        self.heads = dims.heads
        self.gate = start(nn.Linear(dims.width, gates, bias=dims.bias), "gate")

    def forward(self, z_BHTE: Tensor, x_BTD: Tensor) -> Tensor:
        return z_BHTE * torch.sigmoid(split_heads(self.gate(x_BTD), self.heads))
