"""Retention: products of queries and keys that fade with distance, without a softmax."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar, final

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from glassformer.model.attention import attention_scores, split_heads
from glassformer.model.attention_context import AttentionContext
from glassformer.model.dims import Dims, matmul_flops
from glassformer.model.initialisation import start
from glassformer.model.kv_cache import RecurrentCache
from glassformer.model.slots import MIXERS, Positions, RecurrentMixer, RecurrentMixerConfig
from glassformer.model.tap import BY_HEAD, PATTERN, Tap


@MIXERS.variant("retention")
@final
class RetentionConfig(RecurrentMixerConfig):
    """norm((Q K' * D) V) * silu(X G), D = g^distance with g = 1 - 2^(-5 - head) (RetNet, Sun et al. 2023).

    In its parallel form; each head's output is divided by its root mean square (which makes the paper's further divisors
    of the scores unnecessary). Cost: softmax attention's and one map, the gate; the cache is the sum of k v', faded.
    """

    accepts_positions: ClassVar[frozenset[str]] = frozenset({"nothing", "embedding", "rotation"})

    def build(self, dims: Dims) -> Retention:
        return Retention(dims)

    def flops(self, dims: Dims, batch: int, length: int) -> int:
        return matmul_flops(batch * length, dims.width, 4 * dims.width) + 2 * matmul_flops(batch, length, length, dims.width)

    def cache_width(self, dims: Dims) -> int:
        return dims.width * dims.head_width


@final
class Retention(RecurrentMixer):
    fading_H: Tensor

    def __init__(self, dims: Dims) -> None:
        super().__init__()
        self.heads = dims.heads
        self.qkv = start(nn.Linear(dims.width, 3 * dims.width, bias=dims.bias), "qkv")
        self.gate = start(nn.Linear(dims.width, dims.width, bias=dims.bias), "gate")
        self.query, self.key, self.value, self.pattern = Tap(BY_HEAD), Tap(BY_HEAD), Tap(BY_HEAD), Tap(PATTERN, averages=False)
        fading_H = torch.log1p(-(2.0 ** -(5 + torch.arange(dims.heads).double()))).to(torch.get_default_dtype())
        self.register_buffer("fading_H", fading_H, persistent=False)

    def forward(
        self, x_BTD: Tensor, attention_context: AttentionContext, positions: Positions, cache: RecurrentCache | None
    ) -> Tensor:
        position_ids_BT = attention_context.query_position_ids(x_BTD.shape[1], x_BTD.device)
        q_BHTE, k_BHTE, v_BHTE = (split_heads(part, self.heads) for part in self.qkv(x_BTD).chunk(3, dim=-1))
        q_BHTE = self.query(positions.rotate(q_BHTE, position_ids_BT))
        k_BHTE, v_BHTE = self.key(positions.rotate(k_BHTE, position_ids_BT)), self.value(v_BHTE)
        length = x_BTD.shape[1]
        among_these = attention_context if cache is None else replace(attention_context, position_ids_BT=None)
        at_BT = among_these.query_position_ids(length, x_BTD.device)
        distance_B1TS = (at_BT[:, None, :, None] - torch.arange(length, device=x_BTD.device)).abs()
        decay_BHTS = torch.exp(self.fading_H[:, None, None] * distance_B1TS)
        mask = among_these.attention_mask(length, length, x_BTD.device)
        if mask is not None:
            decay_BHTS = decay_BHTS.masked_fill(~mask, 0.0)
        pattern_BHTS = self.pattern(attention_scores(q_BHTE, k_BHTE) * decay_BHTS.to(q_BHTE.dtype))
        z_BHTE = pattern_BHTS @ v_BHTE
        if cache is not None:
            z_BHTE = z_BHTE + self.remembered(q_BHTE, k_BHTE, v_BHTE, cache)
        z_BHTE = F.rms_norm(z_BHTE, (v_BHTE.shape[-1],), eps=1e-6)
        return z_BHTE * F.silu(split_heads(self.gate(x_BTD), self.heads))

    def remembered(self, q_BHTE: Tensor, k_BHTE: Tensor, v_BHTE: Tensor, cache: RecurrentCache) -> Tensor:
        """What the tokens before these add to each of them; these are added to what is remembered."""
        length, width = q_BHTE.shape[2:]
        memory_BHEE = cache.read("memory", q_BHTE, self.heads, width, width)
        since_T1 = torch.arange(1, length + 1, device=q_BHTE.device).unsqueeze(-1)
        faded_HT1 = torch.exp(self.fading_H[:, None, None] * since_T1).to(q_BHTE.dtype)
        until_HT1 = torch.exp(self.fading_H[:, None, None] * (length - since_T1)).to(q_BHTE.dtype)
        cache.write("memory", faded_HT1[:, -1:] * memory_BHEE + (until_HT1 * k_BHTE).transpose(2, 3) @ v_BHTE)
        return faded_HT1 * attention_scores(q_BHTE, memory_BHEE.transpose(2, 3))
