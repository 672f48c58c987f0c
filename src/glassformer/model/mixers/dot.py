"""Softmax dot-product attention: vectors -> queries, keys, values -> outputs per head. Equations: model/attention.py."""

from __future__ import annotations

from typing import Any, ClassVar, final

from torch import Tensor, nn

from glassformer.model.attention import attention_scores, split_heads
from glassformer.model.attention_context import AttentionContext
from glassformer.model.dims import Dims, matmul_flops
from glassformer.model.kv_cache import KVCache
from glassformer.model.slots import MIXERS, MixerConfig, Positions
from glassformer.model.softmax_mixer import SoftmaxMixer
from glassformer.model.tap import BY_HEAD, Tap


@MIXERS.variant("dot")
@final
class DotConfig(MixerConfig):
    """Softmax of scaled dot products of queries and keys (Vaswani et al. 2017)."""

    takes: ClassVar[frozenset[str]] = frozenset({"nothing", "embedding", "rotation", "bias"})
    examples: ClassVar[tuple[dict[str, Any], ...]] = ({}, {"fused": False})

    fused: bool = True
    """Use torch's fused kernel; False runs the reference implementation."""

    def build(self, dims: Dims) -> Dot:
        return Dot(dims, fused=self.fused)

    def parameters(self, dims: Dims) -> int:
        return dims.linear_parameters(dims.width, 3 * dims.width)

    def flops(self, dims: Dims, batch: int, length: int) -> int:
        projections = matmul_flops(batch * length, dims.width, 3 * dims.width)
        scores_and_values = 2 * matmul_flops(batch, length, length, dims.width)
        return projections + scores_and_values


@final
class Dot(SoftmaxMixer):
    def __init__(self, dims: Dims, *, fused: bool) -> None:
        super().__init__(dims, fused=fused)
        self.qkv = nn.Linear(dims.width, 3 * dims.width, bias=dims.bias)
        self.query, self.key = Tap(BY_HEAD), Tap(BY_HEAD)

    def forward(self, x_BTD: Tensor, context: AttentionContext, positions: Positions, cache: KVCache | None) -> Tensor:
        position_ids_BT = context.query_position_ids(x_BTD.shape[1], x_BTD.device)
        q_BHTE, k_BHSE, v_BHSE = (split_heads(part, self.heads) for part in self.qkv(x_BTD).chunk(3, dim=-1))
        q_BHTE = self.query(positions.rotate(q_BHTE, position_ids_BT))
        k_BHSE = self.key(positions.rotate(k_BHSE, position_ids_BT))
        v_BHSE = self.value(v_BHSE)
        if cache is not None:
            k_BHSE, v_BHSE = cache.extend("key", k_BHSE), cache.extend("value", v_BHSE)
        bias_BHTS = positions.bias(position_ids_BT, k_BHSE.shape[2])
        if self.takes_fast_path:
            return self.fused_mix(q_BHTE, k_BHSE, v_BHSE, context, bias_BHTS)
        return self.mix(attention_scores(q_BHTE, k_BHSE), v_BHSE, context, bias_BHTS)
