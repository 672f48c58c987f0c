"""The head with a matrix of its own."""

from __future__ import annotations

from typing import final

import torch
from torch import nn

from glassformer.model.dims import Dims
from glassformer.model.initialisation import start
from glassformer.model.slots import HEADS, LinearHead, ProductHeadConfig


@HEADS.variant("untied")
@final
class UntiedConfig(ProductHeadConfig):
    """Scores by a matrix of its own (Vaswani et al. 2017, without their sharing)."""

    bias: bool = False

    def build(self, dims: Dims, embedding: nn.Embedding) -> Untied:
        return start(Untied(dims, bias=self.bias))


@final
class Untied(LinearHead):
    def __init__(self, dims: Dims, *, bias: bool) -> None:
        weight_VD = nn.Parameter(torch.empty(dims.num_outputs, dims.width))
        super().__init__(weight_VD, nn.Parameter(torch.empty(dims.num_outputs)) if bias else None)
