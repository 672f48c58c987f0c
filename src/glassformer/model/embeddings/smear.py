"""Each token's vector with some of the one before it."""

from __future__ import annotations

from typing import Any, ClassVar, final

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn

from glassformer.model.attention_context import AttentionContext
from glassformer.model.dims import Dims, matmul_flops
from glassformer.model.kv_cache import KVCache
from glassformer.model.slots import EMBEDDINGS, ContextEmbedding, EmbeddingConfig
from glassformer.model.time_shift import earlier


@EMBEDDINGS.variant("smear")
@final
class SmearConfig(EmbeddingConfig):
    """e_t + a sigmoid(w e_t) e_(t-1): the vector before is mixed in by a gate that reads ``channels`` numbers (nanochat 2026).

    a starts at 0: the plain embedding. With ``norm`` each vector is first divided by its root mean square. The cache stores one
    vector of each token.
    """

    examples: ClassVar[tuple[dict[str, Any], ...]] = ({"channels": 5}, {"channels": 7, "norm": True})

    channels: int = Field(default=24, ge=1)
    """How many numbers of a token's vector the gate reads."""
    norm: bool = False

    @property
    def starts_silent(self) -> bool:
        return True

    def incompatibility(self, dims: Dims) -> str | None:
        if self.channels <= dims.width:
            return None
        return f"model.embedding.channels={self.channels} is more than model.width={dims.width}; choose fewer."

    def build(self, dims: Dims) -> nn.Embedding:
        return SmearEmbedding(dims, self)

    def flops(self, dims: Dims, batch: int, length: int) -> int:
        return matmul_flops(batch * length, self.channels, 1)


@final
class SmearEmbedding(ContextEmbedding):
    def __init__(self, dims: Dims, config: SmearConfig) -> None:
        super().__init__(dims.vocabulary, dims.width)
        self.norm = config.norm
        self.gate = nn.Linear(config.channels, 1, bias=False)
        self.share = nn.Parameter(torch.zeros(1))

    def embed(self, ids_BT: Tensor, attention_context: AttentionContext, cache: KVCache | None) -> Tensor:
        x_BTD = self(ids_BT)
        if self.norm:
            x_BTD = F.rms_norm(x_BTD, (x_BTD.shape[-1],))
        (before_BTD,) = earlier(x_BTD, 1, attention_context, cache)
        return x_BTD + self.share * torch.sigmoid(self.gate(x_BTD[..., : self.gate.in_features])) * before_BTD
