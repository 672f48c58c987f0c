"""Narrow vectors of tokens, widened by one matrix."""

from __future__ import annotations

from typing import Any, ClassVar, final

from pydantic import Field
from torch import Tensor, nn

from glassformer.model.dims import Dims, matmul_flops
from glassformer.model.slots import EMBEDDINGS, EmbeddingConfig


@EMBEDDINGS.variant("factorised")
@final
class FactorisedConfig(EmbeddingConfig):
    """A table of ``rank`` numbers per token, times a matrix to the width: E = A B (ALBERT, Lan et al. 2019)."""

    can_be_tied: ClassVar[bool] = False
    examples: ClassVar[tuple[dict[str, Any], ...]] = ({"rank": 5},)

    rank: int = Field(default=16, ge=1, le=1 << 16)

    def incompatibility(self, dims: Dims) -> str | None:
        if self.rank < dims.width:
            return None
        return f"model.embedding.rank={self.rank} must be below model.width={dims.width}, or it saves nothing; choose plain."

    def build(self, dims: Dims) -> nn.Embedding:
        return FactorisedEmbedding(dims, self.rank)

    def flops(self, dims: Dims, batch: int, length: int) -> int:
        return matmul_flops(batch * length, self.rank, dims.width)


@final
class FactorisedEmbedding(nn.Embedding):
    def __init__(self, dims: Dims, rank: int) -> None:
        super().__init__(dims.vocabulary, rank)
        self.widen = nn.Linear(rank, dims.width, bias=False)

    def forward(self, ids_BT: Tensor) -> Tensor:
        return self.widen(super().forward(ids_BT))
