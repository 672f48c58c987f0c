"""The head with a matrix of its own."""

from __future__ import annotations

from typing import final

from torch import nn

from glassformer.model.dims import Dims, matmul_flops
from glassformer.model.slots import HEADS, HeadConfig


@HEADS.variant("untied")
@final
class UntiedConfig(HeadConfig):
    """Scores by a matrix of its own (Vaswani et al. 2017, without their sharing)."""

    bias: bool = False

    def build(self, dims: Dims, embedding: nn.Embedding) -> nn.Module:
        return nn.Linear(dims.width, dims.vocabulary, bias=self.bias)

    def parameters(self, dims: Dims) -> int:
        return dims.width * dims.vocabulary + (dims.vocabulary if self.bias else 0)

    def flops(self, dims: Dims, batch: int, length: int) -> int:
        return matmul_flops(batch * length, dims.width, dims.vocabulary)
