"""The head with a matrix of its own."""

from __future__ import annotations

from typing import Any, ClassVar, final

import torch
from pydantic import Field
from torch import nn

from glassformer.model.dims import Dims, matmul_flops
from glassformer.model.initialisation import start
from glassformer.model.slots import HEADS, HeadConfig, LinearHead, SoftcappedHead


@HEADS.variant("untied")
@final
class UntiedConfig(HeadConfig):
    """Scores by a matrix of its own (Vaswani et al. 2017, without their sharing)."""

    examples: ClassVar[tuple[dict[str, Any], ...]] = ({}, {"softcap": 5.0})

    bias: bool = False
    softcap: float | None = Field(default=None, gt=0)
    """c in c tanh(score / c), which keeps scores within (-c, c) (Gemma 2 2024: 30); none: no limit."""

    def build(self, dims: Dims, embedding: nn.Embedding) -> LinearHead:
        if self.softcap is None:
            return start(Untied(dims, bias=self.bias))
        weight_VD = nn.Parameter(torch.empty(dims.num_outputs, dims.width))
        bias_V = nn.Parameter(torch.empty(dims.num_outputs)) if self.bias else None
        return start(SoftcappedHead(weight_VD, bias_V, cap=self.softcap))

    def parameters(self, dims: Dims) -> int:
        return dims.width * dims.num_outputs + (dims.num_outputs if self.bias else 0)

    def flops(self, dims: Dims, batch: int, length: int) -> int:
        return matmul_flops(batch * length, dims.width, dims.num_outputs)


@final
class Untied(LinearHead):
    def __init__(self, dims: Dims, *, bias: bool) -> None:
        weight_VD = nn.Parameter(torch.empty(dims.num_outputs, dims.width))
        super().__init__(weight_VD, nn.Parameter(torch.empty(dims.num_outputs)) if bias else None)
