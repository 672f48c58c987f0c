"""Linear attention: weights are products of positive features, so a running sum could take the place of all keys."""

from __future__ import annotations

from typing import ClassVar, final

import torch.nn.functional as F
from torch import Tensor, nn

from glassformer.model.attention import split_heads
from glassformer.model.attention_context import AttentionContext
from glassformer.model.dims import Dims, matmul_flops
from glassformer.model.initialisation import start
from glassformer.model.kv_cache import KVCache
from glassformer.model.slots import MIXERS, Mixer, MixerConfig, Positions
from glassformer.model.tap import BY_HEAD, PATTERN, Tap


@MIXERS.variant("linear")
@final
class LinearConfig(MixerConfig):
    """phi(q) phi(k) over its sum, phi = elu + 1: attention without a softmax (Katharopoulos et al. 2020).

    In its quadratic form, as cost and cache are here those of softmax attention; by running sums both would be linear.
    Positions that turn are not accepted: they would make features negative.
    """

    accepts_positions: ClassVar[frozenset[str]] = frozenset({"nothing", "embedding"})

    def build(self, dims: Dims) -> LinearAttention:
        return LinearAttention(dims)

    def parameters(self, dims: Dims) -> int:
        return dims.linear_parameters(dims.width, 3 * dims.width)

    def flops(self, dims: Dims, batch: int, length: int) -> int:
        return matmul_flops(batch * length, dims.width, 3 * dims.width) + 2 * matmul_flops(batch, length, length, dims.width)


@final
class LinearAttention(Mixer):
    def __init__(self, dims: Dims) -> None:
        super().__init__()
        self.heads = dims.heads
        self.qkv = start(nn.Linear(dims.width, 3 * dims.width, bias=dims.bias), "qkv")
        self.query, self.key, self.value, self.pattern = Tap(BY_HEAD), Tap(BY_HEAD), Tap(BY_HEAD), Tap(PATTERN)

    def forward(
        self, x_BTD: Tensor, attention_context: AttentionContext, positions: Positions, cache: KVCache | None
    ) -> Tensor:
        q_BHTE, k_BHSE, v_BHSE = (split_heads(part, self.heads) for part in self.qkv(x_BTD).chunk(3, dim=-1))
        q_BHTE, k_BHSE, v_BHSE = self.query(F.elu(q_BHTE) + 1), self.key(F.elu(k_BHSE) + 1), self.value(v_BHSE)
        if cache is not None:
            k_BHSE, v_BHSE = cache.extend("key", k_BHSE), cache.extend("value", v_BHSE)
        weight_BHTS = q_BHTE @ k_BHSE.transpose(-1, -2)
        mask = attention_context.attention_mask(q_BHTE.shape[2], k_BHSE.shape[2], x_BTD.device)
        if mask is not None:
            weight_BHTS = weight_BHTS.masked_fill(~mask, 0.0)
        pattern_BHTS = weight_BHTS / weight_BHTS.sum(dim=-1, keepdim=True).clamp(min=1e-6)  # who sees nothing gets zeros
        return self.pattern(pattern_BHTS) @ v_BHSE
