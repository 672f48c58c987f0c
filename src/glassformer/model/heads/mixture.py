"""A mixture of softmaxes over the vocabulary."""

from __future__ import annotations

from typing import Any, ClassVar, final

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn

from glassformer.model.dims import Dims, matmul_flops
from glassformer.model.initialisation import start
from glassformer.model.slots import HEADS, HeadConfig


@HEADS.variant("mixture")
@final
class MixtureConfig(HeadConfig):
    """sum_k pi_k softmax(E tanh(A_k x)): a mixture of softmaxes, whose log probabilities have full rank (Yang et al. 2018).

    E is the embedding's matrix, pi a softmax of a linear map of x. Its scores are log probabilities. Cost: ``parts`` times the
    product of a tied head, and a square matrix for each part.
    """

    shares_embedding: ClassVar[bool] = True
    examples: ClassVar[tuple[dict[str, Any], ...]] = ({}, {"parts": 2})

    parts: int = Field(default=4, ge=2)
    """How many softmaxes."""

    def build(self, dims: Dims, embedding: nn.Embedding) -> Mixture:
        return Mixture(dims, embedding, self.parts)

    def flops(self, dims: Dims, batch: int, length: int) -> int:
        made = matmul_flops(batch * length, dims.width, self.parts * dims.width + self.parts)
        return made + matmul_flops(batch * length * self.parts, dims.width, dims.vocabulary)


@final
class Mixture(nn.Module):
    def __init__(self, dims: Dims, embedding: nn.Embedding, parts: int) -> None:
        super().__init__()
        self.parts, self.embedding_VD = parts, embedding.weight
        self.vectors = start(nn.Linear(dims.width, parts * dims.width, bias=dims.bias), "vectors")
        self.prior = start(nn.Linear(dims.width, parts, bias=dims.bias), "prior")

    def forward(self, x_BTD: Tensor) -> Tensor:
        x_BTKD = torch.tanh(self.vectors(x_BTD)).unflatten(-1, (self.parts, -1))
        logs_BTKV = F.linear(x_BTKD, self.embedding_VD).log_softmax(-1)
        return torch.logsumexp(logs_BTKV + self.prior(x_BTD).log_softmax(-1).unsqueeze(-1), dim=-2)
