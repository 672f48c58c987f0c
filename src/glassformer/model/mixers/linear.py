"""Linear attention: weights are products of positive features, so a running sum takes the place of all keys in generation."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar, final

import torch.nn.functional as F
from torch import Tensor, nn

from glassformer.model.attention import split_heads
from glassformer.model.attention_context import AttentionContext
from glassformer.model.dims import Dims, matmul_flops
from glassformer.model.initialisation import start
from glassformer.model.kv_cache import RecurrentCache
from glassformer.model.slots import MIXERS, Positions, RecurrentMixer, RecurrentMixerConfig
from glassformer.model.tap import BY_HEAD, PATTERN, Tap


@MIXERS.variant("linear")
@final
class LinearConfig(RecurrentMixerConfig):
    """phi(q) phi(k) over its sum, phi = elu + 1: attention without a softmax (Katharopoulos et al. 2020).

    Training is in the quadratic form, at the cost of softmax attention; the cache is a running sum of phi(k) v' and of phi(k).
    Positions that turn are not accepted: they would make features negative.
    """

    accepts_positions: ClassVar[frozenset[str]] = frozenset({"nothing", "embedding"})

    def build(self, dims: Dims) -> LinearAttention:
        return LinearAttention(dims)

    def flops(self, dims: Dims, batch: int, length: int) -> int:
        return matmul_flops(batch * length, dims.width, 3 * dims.width) + 2 * matmul_flops(batch, length, length, dims.width)

    def cache_width(self, dims: Dims) -> int:
        return dims.width * (dims.head_width + 1)


@final
class LinearAttention(RecurrentMixer):
    def __init__(self, dims: Dims) -> None:
        super().__init__()
        self.heads = dims.heads
        self.qkv = start(nn.Linear(dims.width, 3 * dims.width, bias=dims.bias), "qkv")
        self.query, self.key, self.value, self.pattern = Tap(BY_HEAD), Tap(BY_HEAD), Tap(BY_HEAD), Tap(PATTERN)

    def forward(
        self, x_BTD: Tensor, attention_context: AttentionContext, positions: Positions, cache: RecurrentCache | None
    ) -> Tensor:
        q_BHTE, k_BHTE, v_BHTE = (split_heads(part, self.heads) for part in self.qkv(x_BTD).chunk(3, dim=-1))
        q_BHTE, k_BHTE, v_BHTE = self.query(F.elu(q_BHTE) + 1), self.key(F.elu(k_BHTE) + 1), self.value(v_BHTE)
        weight_BHTS = q_BHTE @ k_BHTE.transpose(-1, -2)
        among_these = attention_context if cache is None else replace(attention_context, position_ids_BT=None)
        mask = among_these.attention_mask(q_BHTE.shape[2], k_BHTE.shape[2], x_BTD.device)
        if mask is not None:
            weight_BHTS = weight_BHTS.masked_fill(~mask, 0.0)
        total_BHT1 = weight_BHTS.sum(dim=-1, keepdim=True)
        if cache is None:
            pattern_BHTS = weight_BHTS / total_BHT1.clamp(min=1e-6)  # who sees nothing gets zeros
            return self.pattern(pattern_BHTS) @ v_BHTE
        width = q_BHTE.shape[-1]
        products_BHEE = cache.read("products", q_BHTE, self.heads, width, width)
        keys_BHE1 = cache.read("keys", q_BHTE, self.heads, width, 1)
        total_BHT1 = (total_BHT1 + q_BHTE @ keys_BHE1).clamp(min=1e-6)
        z_BHTE = (weight_BHTS @ v_BHTE + q_BHTE @ products_BHEE) / total_BHT1
        cache.write("products", products_BHEE + k_BHTE.transpose(2, 3) @ v_BHTE)
        cache.write("keys", keys_BHE1 + k_BHTE.sum(dim=2).unsqueeze(-1))
        return z_BHTE
