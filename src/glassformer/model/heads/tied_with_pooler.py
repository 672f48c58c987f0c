"""The tied head beside BERT's pooler: for encoders that were published without scores of the vocabulary."""

from __future__ import annotations

from typing import ClassVar, final

import torch
from torch import Tensor, nn

from glassformer.model.dims import Dims
from glassformer.model.initialisation import start
from glassformer.model.slots import HEADS, LinearHead, ProductHeadConfig


@HEADS.variant("pooled")
@final
class PooledConfig(ProductHeadConfig):
    """The tied head, plus a map of the first token's vector that no logit uses (BERT's pooler)."""

    shares_embedding: ClassVar[bool] = True

    def build(self, dims: Dims, embedding: nn.Embedding) -> Pooled:
        return Pooled(dims, embedding)

    def untrained(self, dims: Dims) -> dict[str, slice]:
        """No score depends on the pooler."""
        return {"head.pooler.weight": slice(0, dims.width), "head.pooler.bias": slice(0, dims.width)}


@final
class Pooled(LinearHead):
    def __init__(self, dims: Dims, embedding: nn.Embedding) -> None:
        super().__init__(embedding.weight)
        self.pooler = start(nn.Linear(dims.width, dims.width), "pooler")

    def pooled(self, x_BTD: Tensor) -> Tensor:
        """One vector for each row, [B, D]."""
        return torch.tanh(self.pooler(x_BTD[:, 0]))
