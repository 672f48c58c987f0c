"""Scalable softmax: sharper, the more keys a query sees."""

from __future__ import annotations

import math
from typing import final

import torch
from torch import Tensor, nn

from glassformer.model.attention import attention_pattern, visible_keys
from glassformer.model.dims import Dims
from glassformer.model.slots import NORMALISERS, Normaliser, NormaliserConfig


@NORMALISERS.variant("scalable")
@final
class ScalableConfig(NormaliserConfig):
    """softmax(a log(n) s), n the number of keys that the query sees, a learned per head (SSMax, Nakanishi 2025).

    a starts at 1 / log(context), so that the last query of a full context starts with plain softmax. Cost: one number per head.
    """

    def build(self, dims: Dims) -> Scalable:
        return Scalable(dims)


@final
class Scalable(Normaliser):
    def __init__(self, dims: Dims) -> None:
        super().__init__()
        self.start = 1.0 / math.log(max(2, dims.context))
        self.factor_H = nn.Parameter(torch.empty(dims.heads))

    def init_weights(self, generator: torch.Generator) -> None:
        nn.init.constant_(self.factor_H, self.start)

    def forward(self, scores_BHTS: Tensor, mask: Tensor | None) -> Tensor:
        factor_BHT1 = self.factor_H[:, None, None] * visible_keys(scores_BHTS, mask).log()
        return attention_pattern(scores_BHTS * factor_BHT1, mask)
