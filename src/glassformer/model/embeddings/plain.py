"""One trained vector per token."""

from __future__ import annotations

import math
from typing import Any, ClassVar, Literal, final

from pydantic import Field
from torch import Tensor, nn

from glassformer.model.dims import Dims
from glassformer.model.embedding_lookup import Embedding
from glassformer.model.slots import EMBEDDINGS, EmbeddingConfig


@EMBEDDINGS.variant("plain")
@final
class PlainConfig(EmbeddingConfig):
    """One trained vector per token, times ``scale``: 1, or the root of the width (Vaswani et al. 2017; Gemma)."""

    examples: ClassVar[tuple[dict[str, Any], ...]] = ({}, {"scale": "sqrt"}, {"scale": 3.0})

    scale: float | Literal["sqrt"] = Field(default=1.0)
    """What the vectors are multiplied by; a head that shares the table reads it as it is."""

    def build(self, dims: Dims) -> nn.Embedding:
        factor = math.sqrt(dims.width) if self.scale == "sqrt" else self.scale
        return Embedding(dims.vocabulary, dims.width) if factor == 1.0 else ScaledEmbedding(dims, factor)


@final
class ScaledEmbedding(nn.Embedding):
    def __init__(self, dims: Dims, scale: float) -> None:
        super().__init__(dims.vocabulary, dims.width)
        self.scale = scale

    def forward(self, ids_BT: Tensor) -> Tensor:
        return self.scale * super().forward(ids_BT)
