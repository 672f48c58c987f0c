"""Multi-head latent attention: keys and values of all heads are made from one short vector per token."""

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
from glassformer.model.norms.rms import RMSNorm
from glassformer.model.slots import MIXERS, MixerConfig, Positions
from glassformer.model.softmax_mixer import SoftmaxMixer
from glassformer.model.tap import BY_HEAD, Tap


@MIXERS.variant("latent")
@final
class LatentConfig(MixerConfig):
    """Keys and values are linear in a latent c = norm(x A) of ``rank`` numbers, which alone is cached (MLA, DeepSeek-V2 2024).

    As positions cannot turn what is cached, each head has a second key, one for all heads, which they turn; a query has a
    part for either. Both parts are as wide as a head. Cost: low-rank maps; the cache holds rank + head width per token.
    """

    accepts_positions: ClassVar[frozenset[str]] = frozenset({"nothing", "embedding", "rotation", "bias"})
    any_head_width: ClassVar[bool] = True
    examples: ClassVar[tuple[dict[str, Any], ...]] = ({}, {"rank": 5}, {"fused": False})

    rank: int | None = Field(default=None, ge=1)
    """Numbers in the latent; none: four times the head width, as in DeepSeek-V2."""
    fused: bool = True
    """Use torch's fused kernel; False runs the reference implementation."""

    def build(self, dims: Dims) -> Latent:
        return Latent(dims, rank=self._rank(dims), fused=self.fused)

    def flops(self, dims: Dims, batch: int, length: int) -> int:
        rank, both = self._rank(dims), 2 * dims.attention_width
        down = matmul_flops(batch * length, dims.width, both + rank + dims.head_width)
        scores_and_values = 3 * matmul_flops(batch, length, length, dims.attention_width)
        return down + matmul_flops(batch * length, rank, both) + scores_and_values

    def cache_width(self, dims: Dims) -> int:
        return self._rank(dims) + dims.head_width

    def _rank(self, dims: Dims) -> int:
        return self.rank or 4 * dims.head_width


@final
class Latent(SoftmaxMixer):
    def __init__(self, dims: Dims, *, rank: int, fused: bool) -> None:
        super().__init__(dims, fused=fused)
        self.sizes = (rank, dims.head_width)
        self.queries = start(nn.Linear(dims.width, 2 * dims.attention_width, bias=dims.bias), "queries")
        self.down = start(nn.Linear(dims.width, sum(self.sizes), bias=dims.bias), "down")
        self.latent_norm = RMSNorm(rank, eps=1e-6)
        self.up = start(nn.Linear(rank, 2 * dims.attention_width, bias=dims.bias), "up")
        self.query, self.key = Tap(BY_HEAD), Tap(BY_HEAD)

    def forward(
        self, x_BTD: Tensor, attention_context: AttentionContext, positions: Positions, cache: KVCache | None
    ) -> Tensor:
        position_ids_BT = attention_context.query_position_ids(x_BTD.shape[1], x_BTD.device)
        q_BHTE, turned_q_BHTE = (split_heads(part, self.heads) for part in self.queries(x_BTD).chunk(2, dim=-1))
        q_BHTE = self.query(torch.cat([q_BHTE, positions.rotate(turned_q_BHTE, position_ids_BT)], dim=-1))
        latent_BSR, shared_BSE = self.down(x_BTD).split(self.sizes, dim=-1)
        latent_B1SR = self.latent_norm(latent_BSR).to(x_BTD.dtype).unsqueeze(1)
        shared_B1SE = positions.rotate(shared_BSE.unsqueeze(1), position_ids_BT)
        if cache is not None:
            latent_B1SR, shared_B1SE = cache.extend("latent", latent_B1SR), cache.extend("key", shared_B1SE)
        k_BHSE, v_BHSE = (split_heads(part, self.heads) for part in self.up(latent_B1SR.squeeze(1)).chunk(2, dim=-1))
        k_BHSE = self.key(torch.cat([k_BHSE, shared_B1SE.expand_as(k_BHSE)], dim=-1))
        bias_BHTS = positions.bias(position_ids_BT, k_BHSE.shape[2])
        return self.attend(q_BHTE, k_BHSE, self.value(v_BHSE), attention_context, bias_BHTS)
