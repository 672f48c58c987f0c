"""BERT's head of the masked language model: a linear layer, an activation and a norm before the embedding's own matrix."""

from __future__ import annotations

from typing import Any, ClassVar, Literal, final

import torch
from pydantic import Field
from torch import Tensor, nn

from glassformer.model.dims import Dims, matmul_flops
from glassformer.model.feedforwards.mlp import GELUTanh
from glassformer.model.initialisation import start
from glassformer.model.norms.layer import LayerNorm
from glassformer.model.slots import HEADS, HeadConfig, LinearHead

ACTIVATIONS: dict[str, type[nn.Module]] = {"gelu": nn.GELU, "gelu-tanh": GELUTanh, "relu": nn.ReLU}


@HEADS.variant("masked")
@final
class MaskedConfig(HeadConfig):
    """Linear, activation, norm, then the embedding's own matrix and a bias (BERT; Devlin et al. 2018)."""

    shares_embedding: ClassVar[bool] = True
    examples: ClassVar[tuple[dict[str, Any], ...]] = ({}, {"activation": "gelu-tanh"})

    activation: Literal["gelu", "gelu-tanh", "relu"] = "gelu"
    eps: float = Field(default=1e-5, gt=0)

    def build(self, dims: Dims, embedding: nn.Embedding) -> Masked:
        return Masked(dims, embedding, activation=self.activation, eps=self.eps)

    def flops(self, dims: Dims, batch: int, length: int) -> int:
        rows = batch * length
        return matmul_flops(rows, dims.width, dims.width) + matmul_flops(rows, dims.width, dims.vocabulary)


@final
class Masked(nn.Module):
    def __init__(self, dims: Dims, embedding: nn.Embedding, *, activation: str, eps: float) -> None:
        super().__init__()
        self.dense = start(nn.Linear(dims.width, dims.width), "dense")
        self.activation = ACTIVATIONS[activation]()
        self.norm = LayerNorm(dims.width, eps=eps)
        self.scores = LinearHead(embedding.weight, nn.Parameter(torch.zeros(dims.vocabulary)))

    def forward(self, x_BTD: Tensor) -> Tensor:
        return self.scores(self.norm(self.activation(self.dense(x_BTD))))
