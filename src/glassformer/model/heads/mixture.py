"""Several softmaxes mixed: a head that is not bound to the rank of its matrix."""

from __future__ import annotations

from typing import Any, ClassVar, final

import torch
from pydantic import Field
from torch import Tensor, nn

from glassformer.model.dims import Dims, matmul_flops
from glassformer.model.slots import HEADS, HeadConfig, LinearHead, needs_the_vocabulary


@HEADS.variant("mixture")
@final
class MixtureConfig(HeadConfig):
    """log sum_k p_k(x) softmax(E tanh(U_k x)): a mixture of softmaxes over the embedding's matrix E (Yang et al. 2017).

    What it gives are log probabilities, so a softmax of them is the mixture. ``parts`` times the FLOPs of the tied head.
    """

    shares_embedding: ClassVar[bool] = True
    examples: ClassVar[tuple[dict[str, Any], ...]] = ({}, {"parts": 3})

    parts: int = Field(default=2, ge=2, le=64)

    def build(self, dims: Dims, embedding: nn.Embedding) -> Mixture:
        return Mixture(dims, embedding, self.parts)

    def incompatibility(self, dims: Dims) -> str | None:
        return needs_the_vocabulary(self, dims)

    def parameters(self, dims: Dims) -> int:
        return (dims.width + 1) * self.parts * dims.width + dims.width * self.parts

    def flops(self, dims: Dims, batch: int, length: int) -> int:
        rows, width = batch * length, dims.width
        maps = matmul_flops(rows, width, self.parts * width) + matmul_flops(rows, width, self.parts)
        return maps + matmul_flops(rows * self.parts, width, dims.vocabulary)


@final
class Mixture(nn.Module):
    def __init__(self, dims: Dims, embedding: nn.Embedding, parts: int) -> None:
        super().__init__()
        self.parts = parts
        self.maps, self.shares = nn.Linear(dims.width, parts * dims.width), nn.Linear(dims.width, parts, bias=False)
        self.scores = LinearHead(embedding.weight)

    def forward(self, x_BTD: Tensor) -> Tensor:
        mapped_BTKD = torch.tanh(self.maps(x_BTD)).unflatten(-1, (self.parts, -1))
        log_share_BTK1 = self.shares(x_BTD).log_softmax(dim=-1).unsqueeze(-1)
        return (self.scores(mapped_BTKD).log_softmax(dim=-1) + log_share_BTK1).logsumexp(dim=-2)
