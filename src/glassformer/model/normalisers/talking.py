"""Talking-heads attention: heads exchange scores before the softmax, and weights after it."""

from __future__ import annotations

from typing import final

import torch
from torch import Tensor, nn

from glassformer.model.attention import attention_pattern
from glassformer.model.dims import Dims, matmul_flops
from glassformer.model.slots import NORMALISERS, Normaliser, NormaliserConfig


@NORMALISERS.variant("talking")
@final
class TalkingConfig(NormaliserConfig):
    """softmax(s P) W: a learned map between the heads before the softmax, and one after it (Shazeer et al. 2020).

    Both maps, H by H, start as the identity, so the start is plain softmax. Cost: two products of H by H for every score.
    """

    def build(self, dims: Dims) -> Talking:
        return Talking(dims)

    def flops(self, dims: Dims, batch: int, length: int) -> int:
        return 2 * matmul_flops(batch, length, length, dims.heads, dims.heads)


@final
class Talking(Normaliser):
    averages = False

    def __init__(self, dims: Dims) -> None:
        super().__init__()
        self.before_HG, self.after_HG = (nn.Parameter(torch.empty(dims.heads, dims.heads)) for _ in range(2))

    def init_weights(self, generator: torch.Generator) -> None:
        nn.init.eye_(self.before_HG)
        nn.init.eye_(self.after_HG)

    def forward(self, scores_BHTS: Tensor, mask: Tensor | None) -> Tensor:
        scores_BGTS = torch.einsum("bhts,hg->bgts", scores_BHTS, self.before_HG)
        return torch.einsum("bhts,hg->bgts", attention_pattern(scores_BGTS, mask), self.after_HG)
