"""Value embeddings: each token adds a vector of its own to its values, whatever the layers before made of it."""

from __future__ import annotations

from typing import Any, ClassVar, final

import torch
from pydantic import Field
from torch import Tensor, nn

from glassformer.model.attention import split_heads
from glassformer.model.dims import Dims, matmul_flops
from glassformer.model.slots import VALUE_MAPS, ValueConfig, ValueMap


@VALUE_MAPS.variant("embedding")
@final
class ValueEmbeddingConfig(ValueConfig):
    """v + g E[id]: a second embedding of each token, added to its values (modded-nanogpt 2024; gated: nanochat).

    g is a learned number for each head, 1/2 at the start; with ``gate`` n it is 3 sigmoid(w x) of the first n numbers of what
    the layer reads. Cost: a table of the vocabulary in every layer that has it, so a list puts it in some:
    ``mixer: [{kind: dot, values: embedding}, dot]``. No products but the gate's.
    """

    examples: ClassVar[tuple[dict[str, Any], ...]] = ({}, {"gate": 5})

    gate: int | None = Field(default=None, ge=1)
    """How many numbers of a token's vector the gate reads; none: it is learned and the same for all tokens."""

    def incompatibility(self, dims: Dims) -> str | None:
        if self.gate is None or self.gate <= dims.width:
            return None
        return f"model.mixer.values.gate={self.gate} is more than model.width={dims.width}; choose fewer."

    def build(self, dims: Dims) -> ValueEmbedding:
        return ValueEmbedding(dims, self.gate)

    def flops(self, dims: Dims, batch: int, length: int) -> int:
        return 0 if self.gate is None else matmul_flops(batch * length, self.gate, dims.kv_heads)


@final
class ValueEmbedding(ValueMap):
    def __init__(self, dims: Dims, gate: int | None) -> None:
        super().__init__()
        self.heads = dims.kv_heads
        self.table = nn.Embedding(dims.vocabulary, dims.kv_heads * dims.head_width)
        self.gate = None if gate is None else nn.Linear(gate, dims.kv_heads, bias=False)
        self.share_G = None if gate is not None else nn.Parameter(torch.full((dims.kv_heads,), 0.5))

    def forward(self, v_BGTE: Tensor, x_BTD: Tensor, ids_BT: Tensor) -> Tensor:
        added_BGTE = split_heads(self.table(ids_BT), self.heads)
        if self.gate is not None:
            share_BTG = 3.0 * torch.sigmoid(self.gate(x_BTD[..., : self.gate.in_features]))
            return v_BGTE + (share_BTG.transpose(1, 2).unsqueeze(-1) * added_BGTE).to(v_BGTE.dtype)
        assert self.share_G is not None
        return v_BGTE + (self.share_G[:, None, None] * added_BGTE).to(v_BGTE.dtype)
