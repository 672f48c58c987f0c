"""The head that shares its matrix with the embedding."""

from __future__ import annotations

from typing import Any, ClassVar, final

from pydantic import Field
from torch import nn

from glassformer.model.dims import Dims, matmul_flops
from glassformer.model.slots import HEADS, HeadConfig, LinearHead, SoftcappedHead, needs_the_vocabulary


@HEADS.variant("tied")
@final
class TiedConfig(HeadConfig):
    """Scores by the embedding's own matrix: no further parameters (Press and Wolf 2017)."""

    shares_embedding: ClassVar[bool] = True
    examples: ClassVar[tuple[dict[str, Any], ...]] = ({}, {"softcap": 5.0})

    softcap: float | None = Field(default=None, gt=0)
    """c in c tanh(score / c), which keeps scores within (-c, c) (Gemma 2 2024: 30); none: no limit."""

    def build(self, dims: Dims, embedding: nn.Embedding) -> LinearHead:
        return Tied(embedding) if self.softcap is None else SoftcappedHead(embedding.weight, cap=self.softcap)

    def incompatibility(self, dims: Dims) -> str | None:
        return needs_the_vocabulary(self, dims)

    def flops(self, dims: Dims, batch: int, length: int) -> int:
        return matmul_flops(batch * length, dims.width, dims.vocabulary)


@final
class Tied(LinearHead):
    def __init__(self, embedding: nn.Embedding) -> None:
        super().__init__(embedding.weight)
