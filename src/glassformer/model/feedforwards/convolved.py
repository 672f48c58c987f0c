"""A feed-forward whose input is first convolved over the last few tokens."""

from __future__ import annotations

from typing import Any, ClassVar, final

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


@FEEDFORWARDS.variant("convolved")
@final
class ConvolvedConfig(FeedforwardConfig):
    """GELU of W(x + conv(x)), then down: a short causal convolution in each channel (Canon layer C, Allen-Zhu 2025).

    conv(x)_t = sum_j c_j x_(t-j) over the last ``kernel`` tokens, with one trained number for each channel and j, zero at the
    start: the feed-forward gelu. ``kernel`` parameters a channel; the cache stores one vector of each token.
    """

    examples: ClassVar[tuple[dict[str, Any], ...]] = ({}, {"kernel": 2, "inner": 7})

    kernel: int = Field(default=4, ge=2, le=64)
    expansion: float = Field(default=4.0, gt=0)
    inner: int | None = Field(default=None, gt=0)

    def inner_width(self, dims: Dims) -> int:
        return self.inner or max(1, round(self.expansion * dims.width))

    def build(self, dims: Dims) -> Convolved:
        return Convolved(dims, self.inner_width(dims), self.kernel)

    def flops(self, dims: Dims, batch: int, length: int) -> int:
        return 2 * matmul_flops(batch * length, dims.width, self.inner_width(dims))

    def cache_width(self, dims: Dims) -> int:
        return dims.width


@final
class Convolved(Feedforward):
    def __init__(self, dims: Dims, inner: int, kernel: int) -> None:
        super().__init__()
        self.taps = nn.ParameterList(torch.zeros(dims.width) for _ in range(kernel))
        self.up = nn.Linear(dims.width, inner, bias=dims.bias)
        self.down = start(nn.Linear(inner, dims.width, bias=dims.bias), writes_residual=True)
        self.neurons = Tap("batch position neuron")

    def forward(self, x_BTD: Tensor, attention_context: AttentionContext, cache: KVCache | None) -> Tensor:
        seen = [x_BTD, *earlier(x_BTD, len(self.taps) - 1, attention_context, cache)]
        convolved_BTD = x_BTD
        for weight_D, moved_BTD in zip(self.taps, seen, strict=True):
            convolved_BTD = convolved_BTD + weight_D.to(x_BTD.dtype) * moved_BTD
        return self.down(self.neurons(nn.functional.gelu(self.up(convolved_BTD))))

    def new_cache(self, placement: CachePlacement) -> KVCache:
        return KVCache(placement)
