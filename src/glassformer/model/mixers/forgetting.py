"""Forgetting attention: softmax attention whose scores fall with every gate that lies between query and key."""

from __future__ import annotations

from typing import ClassVar, final

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from glassformer.model.attention import attention_scores, split_heads
from glassformer.model.attention_context import AttentionContext
from glassformer.model.dims import Dims, matmul_flops
from glassformer.model.initialisation import start
from glassformer.model.kv_cache import KVCache
from glassformer.model.slots import MIXERS, MixerConfig, Positions
from glassformer.model.softmax_mixer import SoftmaxMixer
from glassformer.model.tap import BY_HEAD, Tap


@MIXERS.variant("forgetting")
@final
class ForgettingConfig(MixerConfig):
    """softmax(q k + sum of log f between key and query), f = sigmoid(x w) per head and token (FoX, Lin et al. 2025).

    A gate near 0 hides what came before it. Cost: one more number per head and token; the scores are formed, as the kernels
    of torch add no bias with a gradient in a fixed order. An encoder takes the gates between the two in either direction.
    """

    accepts_positions: ClassVar[frozenset[str]] = frozenset({"nothing", "embedding", "rotation", "bias"})

    def build(self, dims: Dims) -> Forgetting:
        return Forgetting(dims)

    def flops(self, dims: Dims, batch: int, length: int) -> int:
        projections = matmul_flops(batch * length, dims.width, 3 * dims.width + dims.heads)
        running_sums = matmul_flops(batch, dims.heads, length, length)
        return projections + 2 * matmul_flops(batch, length, length, dims.width) + running_sums

    def backward_flops(self, dims: Dims, batch: int, length: int) -> int:
        # the triangle of the running sums is fixed, so they have one gradient
        return super().backward_flops(dims, batch, length) - matmul_flops(batch, dims.heads, length, length)

    def cache_width(self, dims: Dims) -> int:
        return 2 * dims.width + dims.heads


@final
class Forgetting(SoftmaxMixer):
    def __init__(self, dims: Dims) -> None:
        super().__init__(dims)
        self.qkv = start(nn.Linear(dims.width, 3 * dims.width, bias=dims.bias), "qkv")
        self.forget = start(nn.Linear(dims.width, dims.heads, bias=dims.bias), "forget")
        self.query, self.key = Tap(BY_HEAD), Tap(BY_HEAD)

    def forward(
        self, x_BTD: Tensor, attention_context: AttentionContext, positions: Positions, cache: KVCache | None
    ) -> Tensor:
        position_ids_BT = attention_context.query_position_ids(x_BTD.shape[1], x_BTD.device)
        q_BHTE, k_BHSE, v_BHSE = (split_heads(part, self.heads) for part in self.qkv(x_BTD).chunk(3, dim=-1))
        q_BHTE = self.query(positions.rotate(q_BHTE, position_ids_BT))
        k_BHSE, v_BHSE = self.key(positions.rotate(k_BHSE, position_ids_BT)), self.value(v_BHSE)
        log_f_BHS1 = F.logsigmoid(split_heads(self.forget(x_BTD), self.heads))
        if cache is not None:
            k_BHSE, v_BHSE = cache.extend("key", k_BHSE), cache.extend("value", v_BHSE)
            log_f_BHS1 = cache.extend("log_forget", log_f_BHS1)
        bias_BHTS = self.forgotten(log_f_BHS1, position_ids_BT, attention_context)
        of_positions = positions.bias(position_ids_BT, k_BHSE.shape[2])
        if of_positions is not None:
            bias_BHTS = bias_BHTS + of_positions
        return self.mix(attention_scores(q_BHTE, k_BHSE), v_BHSE, attention_context, bias_BHTS)

    @staticmethod
    def forgotten(log_f_BHS1: Tensor, position_ids_BT: Tensor, attention_context: AttentionContext) -> Tensor:
        """The sum of log f from after the key up to the query, [B, H, T, S]; padding forgets nothing."""
        total_BHS1 = running_sum(attention_context.without_padding(log_f_BHS1))
        at_query = position_ids_BT[:, None, :, None].expand(len(total_BHS1), total_BHS1.shape[1], -1, -1)
        return -(total_BHS1.gather(2, at_query) - total_BHS1.transpose(2, 3)).abs()


def running_sum(x_BHS1: Tensor) -> Tensor:
    """The sums of the first 1, 2, ... numbers, by a triangular product: on a GPU ``cumsum`` has no deterministic kernel."""
    size = x_BHS1.shape[2]
    return torch.ones(size, size, dtype=x_BHS1.dtype, device=x_BHS1.device).tril() @ x_BHS1
