"""Grouped-query attention: several heads of queries share the keys and values of one."""

from __future__ import annotations

from typing import Any, ClassVar, final

from pydantic import Field
from torch import Tensor, nn

from glassformer.model.attention import split_heads
from glassformer.model.attention_context import AttentionContext
from glassformer.model.dims import Dims, matmul_flops
from glassformer.model.initialisation import start
from glassformer.model.kv_cache import KVCache
from glassformer.model.slots import MIXERS, MixerConfig, Positions
from glassformer.model.softmax_mixer import SoftmaxMixer
from glassformer.model.tap import BY_HEAD, Tap


@MIXERS.variant("grouped")
@final
class GroupedConfig(MixerConfig):
    """Dot-product attention whose keys and values are shared by groups of heads (Ainslie et al. 2023; Llama)."""

    accepts_positions: ClassVar[frozenset[str]] = frozenset({"nothing", "embedding", "rotation", "bias"})
    any_head_width: ClassVar[bool] = True
    examples: ClassVar[tuple[dict[str, Any], ...]] = ({}, {"kv_heads": 3, "bias": False}, {"fused": False})

    kv_heads: int = Field(default=1, ge=1)
    """Heads of keys and values: 1 is multi-query attention, as many as model.heads is plain attention."""
    bias: bool | None = None
    """Whether queries, keys and values have biases; None: as the model has."""
    fused: bool = True
    """Use torch's fused kernel; False runs the reference implementation."""

    def incompatibility(self, dims: Dims) -> str | None:
        if dims.heads % self.kv_heads == 0:
            return None
        fitting = [n for n in range(1, dims.heads + 1) if dims.heads % n == 0]
        return f"model.mixer.kv_heads={self.kv_heads} must divide model.heads={dims.heads}; use one of {fitting}."

    def build(self, dims: Dims) -> Grouped:
        return Grouped(dims, kv_heads=self.kv_heads, bias=dims.bias if self.bias is None else self.bias, fused=self.fused)

    def parameters(self, dims: Dims) -> int:
        rows = self._rows(dims)
        return dims.width * rows + (rows if (dims.bias if self.bias is None else self.bias) else 0)

    def flops(self, dims: Dims, batch: int, length: int) -> int:
        projections = matmul_flops(batch * length, dims.width, self._rows(dims))
        return projections + 2 * matmul_flops(batch, length, length, dims.attention_width)

    def cache_width(self, dims: Dims) -> int:
        return 2 * self.kv_heads * dims.head_width

    def _rows(self, dims: Dims) -> int:
        return dims.attention_width + self.cache_width(dims)


@final
class Grouped(SoftmaxMixer):
    def __init__(self, dims: Dims, *, kv_heads: int, bias: bool, fused: bool) -> None:
        super().__init__(dims, fused=fused)
        self.kv_heads = kv_heads
        self.sizes = (dims.attention_width, kv_heads * dims.head_width, kv_heads * dims.head_width)
        self.qkv = start(nn.Linear(dims.width, sum(self.sizes), bias=bias), "qkv")
        self.query, self.key = Tap(BY_HEAD), Tap(BY_HEAD)

    def forward(
        self, x_BTD: Tensor, attention_context: AttentionContext, positions: Positions, cache: KVCache | None
    ) -> Tensor:
        position_ids_BT = attention_context.query_position_ids(x_BTD.shape[1], x_BTD.device)
        q_BTD, k_BTG, v_BTG = self.qkv(x_BTD).split(self.sizes, dim=-1)
        q_BHTE = self.query(positions.rotate(split_heads(q_BTD, self.heads), position_ids_BT))
        k_BGSE = self.key(positions.rotate(split_heads(k_BTG, self.kv_heads), position_ids_BT))
        v_BGSE = self.value(split_heads(v_BTG, self.kv_heads))
        if cache is not None:
            k_BGSE, v_BGSE = cache.extend("key", k_BGSE), cache.extend("value", v_BGSE)
        group = self.heads // self.kv_heads
        k_BHSE, v_BHSE = (shared.repeat_interleave(group, dim=1) for shared in (k_BGSE, v_BGSE))
        bias_BHTS = positions.bias(position_ids_BT, k_BHSE.shape[2])
        return self.attend(q_BHTE, k_BHSE, v_BHSE, attention_context, bias_BHTS)
