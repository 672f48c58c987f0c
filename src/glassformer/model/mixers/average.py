"""Average attention: every visible token counts the same."""

from __future__ import annotations

from typing import final

import torch
from torch import Tensor, nn

from glassformer.model.attention import split_heads
from glassformer.model.attention_context import AttentionContext
from glassformer.model.dims import Dims, matmul_flops
from glassformer.model.initialisation import start
from glassformer.model.kv_cache import KVCache
from glassformer.model.slots import MIXERS, Mixer, MixerConfig, Positions
from glassformer.model.tap import BY_HEAD, PATTERN, Tap


@MIXERS.variant("average")
@final
class AverageConfig(MixerConfig):
    """The plain mean of the values so far, no scores at all (average attention network, Zhang et al. 2018)."""

    def build(self, dims: Dims) -> Average:
        return Average(dims)

    def flops(self, dims: Dims, batch: int, length: int) -> int:
        return matmul_flops(batch * length, dims.width, dims.width) + matmul_flops(batch, length, length, dims.width)

    def backward_flops(self, dims: Dims, batch: int, length: int) -> int:
        # the pattern is fixed, so mixing has one gradient, that of the values
        return 2 * matmul_flops(batch * length, dims.width, dims.width) + matmul_flops(batch, length, length, dims.width)


@final
class Average(Mixer):
    """No dropout inside: the weights are not learned."""

    def __init__(self, dims: Dims) -> None:
        super().__init__()
        self.heads = dims.heads
        self.values = start(nn.Linear(dims.width, dims.width, bias=dims.bias), "values")
        self.value, self.pattern = Tap(BY_HEAD), Tap(PATTERN)

    def forward(
        self, x_BTD: Tensor, attention_context: AttentionContext, positions: Positions, cache: KVCache | None
    ) -> Tensor:
        v_BHSE = self.value(split_heads(self.values(x_BTD), self.heads))
        if cache is not None:
            v_BHSE = cache.extend("value", v_BHSE)
        # The fast path is linear in the length. A running sum on a GPU has no deterministic kernel, and torch would refuse it.
        refused = v_BHSE.is_cuda and torch.are_deterministic_algorithms_enabled()
        if attention_context.has_no_extra_mask and attention_context.causal and not self.pattern.in_use and not refused:
            count_T1 = torch.arange(1, x_BTD.shape[1] + 1, device=x_BTD.device).unsqueeze(-1)
            return v_BHSE.cumsum(dim=2) / count_T1
        return self.mix(v_BHSE, x_BTD.shape[1], attention_context)

    def mix(self, v_BHSE: Tensor, num_queries: int, attention_context: AttentionContext) -> Tensor:
        """The reference implementation: a pattern with the same weight for every visible key."""
        batch, heads, num_keys, _ = v_BHSE.shape
        mask = attention_context.attention_mask(num_queries, num_keys, v_BHSE.device)
        if mask is None:
            mask = torch.ones(num_queries, num_keys, dtype=torch.bool, device=v_BHSE.device)
        weight_BHTS = mask.to(v_BHSE.dtype).expand(batch, heads, num_queries, num_keys)
        pattern_BHTS = weight_BHTS / weight_BHTS.sum(dim=-1, keepdim=True).clamp(min=1.0)  # who sees nothing gets zeros
        return self.pattern(pattern_BHTS) @ v_BHSE
