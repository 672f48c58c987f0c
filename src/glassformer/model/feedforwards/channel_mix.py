"""RWKV's channel mixing: a feed-forward that also reads the token before."""

from __future__ import annotations

from typing import final

import torch
from pydantic import Field
from torch import Tensor, nn

from glassformer.model.attention_context import AttentionContext
from glassformer.model.dims import Dims, matmul_flops
from glassformer.model.initialisation import start
from glassformer.model.kv_cache import CachePlacement, KVCache
from glassformer.model.slots import FEEDFORWARDS, Feedforward, FeedforwardConfig
from glassformer.model.tap import Tap
from glassformer.model.time_shift import earlier


@FEEDFORWARDS.variant("channel_mix")
@final
class ChannelMixConfig(FeedforwardConfig):
    """sigmoid(R r) * V relu(K k)^2, where k and r mix each token with the one before it (RWKV, Peng et al. 2023).

    k = m x_t + (1 - m) x_(t-1) with a trained vector m, and r likewise with another; both start at 1/2. The matrices K and V
    have the inner width ``expansion`` times the width; the cache stores one vector of each token.
    """

    expansion: float = Field(default=3.5, gt=0)
    inner: int | None = Field(default=None, gt=0)

    def inner_width(self, dims: Dims) -> int:
        return self.inner or max(1, round(self.expansion * dims.width))

    def build(self, dims: Dims) -> ChannelMix:
        return ChannelMix(dims, self.inner_width(dims))

    def flops(self, dims: Dims, batch: int, length: int) -> int:
        rows, inner = batch * length, self.inner_width(dims)
        return 2 * matmul_flops(rows, dims.width, inner) + matmul_flops(rows, dims.width, dims.width)

    def cache_width(self, dims: Dims) -> int:
        return dims.width


@final
class ChannelMix(Feedforward):
    def __init__(self, dims: Dims, inner: int) -> None:
        super().__init__()
        self.of_key_D, self.of_gate_D = (nn.Parameter(torch.full((dims.width,), 0.5)) for _ in range(2))
        self.up = nn.Linear(dims.width, inner, bias=dims.bias)
        self.gate = nn.Linear(dims.width, dims.width, bias=dims.bias)
        self.down = start(nn.Linear(inner, dims.width, bias=dims.bias), writes_residual=True)
        self.neurons = Tap("batch position neuron")

    def forward(self, x_BTD: Tensor, attention_context: AttentionContext, cache: KVCache | None) -> Tensor:
        (before_BTD,) = earlier(x_BTD, 1, attention_context, cache)
        key_BTD, gate_BTD = (torch.lerp(before_BTD, x_BTD, mix.to(x_BTD.dtype)) for mix in (self.of_key_D, self.of_gate_D))
        return self.gate(gate_BTD).sigmoid() * self.down(self.neurons(self.up(key_BTD).relu().square()))

    def new_cache(self, placement: CachePlacement) -> KVCache:
        return KVCache(placement)
