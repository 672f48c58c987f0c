"""The factorised random synthesizer: the table of scores as a product of two thin tables."""

from __future__ import annotations

from typing import Any, ClassVar, final

import torch
from pydantic import Field
from torch import Tensor, nn

from glassformer.model.attention import split_heads
from glassformer.model.attention_context import AttentionContext
from glassformer.model.dims import Dims, matmul_flops
from glassformer.model.initialisation import start
from glassformer.model.kv_cache import KVCache
from glassformer.model.slots import MIXERS, MixerConfig, Positions
from glassformer.model.softmax_mixer import SoftmaxMixer


@MIXERS.variant("synthesizer_factorised")
@final
class SynthesizerFactorisedConfig(MixerConfig):
    """Factorised random synthesizer: a table of scores of low rank, R1 times R2 transposed (Tay et al. 2020)."""

    accepts_positions: ClassVar[frozenset[str]] = frozenset({"nothing", "embedding", "bias"})
    examples: ClassVar[tuple[dict[str, Any], ...]] = ({}, {"rank": 3}, {"fused": False})

    rank: int = Field(default=8, ge=1)
    """Columns of each of the two tables (8 as published)."""
    fused: bool = True
    """Use torch's fused kernel (the two tables play queries and keys); False runs the reference implementation."""

    def build(self, dims: Dims) -> SynthesizerFactorised:
        return SynthesizerFactorised(dims, rank=self.rank, fused=self.fused)

    def flops(self, dims: Dims, batch: int, length: int) -> int:
        scores = matmul_flops(dims.heads, length, self.rank, length)  # once for all rows of the batch
        return matmul_flops(batch * length, dims.width, dims.width) + scores + matmul_flops(batch, length, length, dims.width)


@final
class SynthesizerFactorised(SoftmaxMixer):
    def __init__(self, dims: Dims, *, rank: int, fused: bool) -> None:
        super().__init__(dims, fused=fused)
        self.values = start(nn.Linear(dims.width, dims.width, bias=dims.bias), "values")
        self.queries_HTR = nn.Parameter(torch.empty(dims.heads, dims.context, rank))
        self.keys_HSR = nn.Parameter(torch.empty(dims.heads, dims.context, rank))

    def init_weights(self, generator: torch.Generator) -> None:
        std = self.keys_HSR.shape[-1] ** -0.25  # so that the products start with variance one, like the full table's
        nn.init.normal_(self.queries_HTR, std=std, generator=generator)
        nn.init.normal_(self.keys_HSR, std=std, generator=generator)

    def forward(
        self, x_BTD: Tensor, attention_context: AttentionContext, positions: Positions, cache: KVCache | None
    ) -> Tensor:
        position_ids_BT = attention_context.query_position_ids(x_BTD.shape[1], x_BTD.device)
        v_BHSE = self.value(split_heads(self.values(x_BTD), self.heads))
        if cache is not None:
            v_BHSE = cache.extend("value", v_BHSE)
        batch, num_keys = x_BTD.shape[0], v_BHSE.shape[2]
        bias_BHTS = positions.bias(position_ids_BT, num_keys)
        q_BHTR, k_HSR = self.queries_HTR[:, position_ids_BT].transpose(0, 1), self.keys_HSR[:, :num_keys]
        if self.takes_fast_path:
            q_BHTR, k_BHSR = q_BHTR.expand(batch, -1, -1, -1), k_HSR.expand(batch, -1, -1, -1)
            return self.attend(q_BHTR, k_BHSR, v_BHSE, attention_context, bias_BHTS, scale=1.0)
        return self.mix(q_BHTR @ k_HSR.transpose(-1, -2), v_BHSE, attention_context, bias_BHTS)
