"""Vectors of tokens plus vectors of short sequences of tokens, found by a hash."""

from __future__ import annotations

from typing import Any, ClassVar, final

import torch
from pydantic import Field
from torch import Tensor, nn

from glassformer.model.attention_context import AttentionContext
from glassformer.model.dims import Dims
from glassformer.model.kv_cache import KVCache
from glassformer.model.slots import EMBEDDINGS, ContextEmbedding, EmbeddingConfig
from glassformer.model.time_shift import earlier

_FACTORS = (36313, 27191, 51647, 20011, 43019, 60013, 15017)
"""Odd numbers that spread the ids of earlier tokens over the rows."""


@EMBEDDINGS.variant("ngrams")
@final
class NgramsConfig(EmbeddingConfig):
    """Each token's vector plus a row of a second table, found by a hash of it and the tokens before (bigram hash, Engram 2026).

    Row (sum_j id_(t-j) f_j) mod ``rows`` over the last ``length`` tokens with fixed factors f; n-grams that collide share a
    row. The table starts at zero, so the model starts as the plain one.
    """

    examples: ClassVar[tuple[dict[str, Any], ...]] = ({"rows": 11}, {"rows": 17, "length": 3})

    rows: int = Field(default=4096, ge=1, le=1 << 24)
    length: int = Field(default=2, ge=2, le=1 + len(_FACTORS))

    def build(self, dims: Dims) -> nn.Embedding:
        return NgramEmbedding(dims, self.rows, self.length)


@final
class NgramEmbedding(ContextEmbedding):
    def __init__(self, dims: Dims, rows: int, length: int) -> None:
        super().__init__(dims.vocabulary, dims.width)
        self.rows, self.length = rows, length
        self.ngrams = _ZeroEmbedding(rows, dims.width)

    def embed(self, ids_BT: Tensor, attention_context: AttentionContext, cache: KVCache | None) -> Tensor:
        # ids travel as numbers of the cache's kind; float64 holds every id exactly, and 0 is "nothing before"
        numbers_BT1 = (ids_BT + 1).unsqueeze(-1).double()
        before = [each.squeeze(-1).round().long() for each in earlier(numbers_BT1, self.length - 1, attention_context, cache)]
        row_BT = ids_BT + sum((factor * each for factor, each in zip(_FACTORS, before)), torch.zeros_like(ids_BT))
        return self(ids_BT) + self.ngrams(row_BT % self.rows)


@final
class _ZeroEmbedding(nn.Embedding):
    def init_weights(self, generator: torch.Generator) -> None:
        nn.init.zeros_(self.weight)
