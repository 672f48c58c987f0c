"""The head that shares its matrix with the embedding."""

from __future__ import annotations

from typing import ClassVar, final

from torch import nn

from glassformer.model.dims import Dims, matmul_flops
from glassformer.model.slots import HEADS, HeadConfig, LinearHead, needs_the_vocabulary


@HEADS.variant("tied")
@final
class TiedConfig(HeadConfig):
    """Scores by the embedding's own matrix: no further parameters (Press and Wolf 2017)."""

    shares_embedding: ClassVar[bool] = True

    def build(self, dims: Dims, embedding: nn.Embedding) -> Tied:
        return Tied(embedding)

    def incompatibility(self, dims: Dims) -> str | None:
        return needs_the_vocabulary(self, dims)

    def flops(self, dims: Dims, batch: int, length: int) -> int:
        return matmul_flops(batch * length, dims.width, dims.vocabulary)


@final
class Tied(LinearHead):
    def __init__(self, embedding: nn.Embedding) -> None:
        super().__init__(embedding.weight)
