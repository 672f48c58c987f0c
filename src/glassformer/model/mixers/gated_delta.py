"""The gated delta rule: a memory matrix that fades, and in which each key's old value is replaced by its new one."""

from __future__ import annotations

from dataclasses import replace
from typing import final

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from glassformer.model.attention import attention_scores, split_heads
from glassformer.model.attention_context import AttentionContext
from glassformer.model.dims import Dims, matmul_flops
from glassformer.model.initialisation import start
from glassformer.model.kv_cache import RecurrentCache
from glassformer.model.mixers.forgetting import running_sum
from glassformer.model.slots import MIXERS, Positions, RecurrentMixer, RecurrentMixerConfig
from glassformer.model.tap import BY_HEAD, PATTERN, Tap

SLOWNESS = 16
"""The root taken of the fading gate, so that it starts near 1 (as in gated linear attention, Yang et al. 2023)."""


@MIXERS.variant("gated_delta")
@final
class GatedDeltaConfig(RecurrentMixerConfig):
    """S = a S (I - b k k') + b v k', output S q: a fading memory that overwrites (gated DeltaNet, Yang et al. 2024).

    In its quadratic form: S is a sum of u k', faded, with u = b (v - what S holds for k), a triangular system for all tokens at
    once. Each head is then normed and gated by silu(x G). The paper's short convolutions are left out. It reads from left to
    right in an encoder, too. Cost: one product more than softmax attention, and the system; the cache is S.
    """

    def build(self, dims: Dims) -> GatedDelta:
        return GatedDelta(dims)

    def flops(self, dims: Dims, batch: int, length: int) -> int:
        projections = matmul_flops(batch * length, dims.width, 4 * dims.width + 2 * dims.heads)
        running_sums = matmul_flops(batch, dims.heads, length, length)
        return projections + 3 * matmul_flops(batch, length, length, dims.width) + running_sums

    def backward_flops(self, dims: Dims, batch: int, length: int) -> int:
        # the triangle of the running sums is fixed, so they have one gradient; that of the solved system is a product
        running_sums, system = matmul_flops(batch, dims.heads, length, length), matmul_flops(batch, length, length, dims.width)
        return super().backward_flops(dims, batch, length) - running_sums + system

    def cache_width(self, dims: Dims) -> int:
        return dims.width * dims.head_width


@final
class GatedDelta(RecurrentMixer):
    def __init__(self, dims: Dims) -> None:
        super().__init__()
        self.heads = dims.heads
        self.qkv = start(nn.Linear(dims.width, 3 * dims.width, bias=dims.bias), "qkv")
        self.gate = start(nn.Linear(dims.width, dims.width, bias=dims.bias), "gate")
        self.rates = start(nn.Linear(dims.width, 2 * dims.heads, bias=dims.bias), "rates")
        self.query, self.key, self.value, self.pattern = Tap(BY_HEAD), Tap(BY_HEAD), Tap(BY_HEAD), Tap(PATTERN, averages=False)

    def forward(
        self, x_BTD: Tensor, attention_context: AttentionContext, positions: Positions, cache: RecurrentCache | None
    ) -> Tensor:
        q_BHTE, k_BHTE, v_BHTE = (split_heads(part, self.heads) for part in self.qkv(x_BTD).chunk(3, dim=-1))
        q_BHTE, k_BHTE = self.query(F.normalize(q_BHTE, dim=-1)), self.key(F.normalize(k_BHTE, dim=-1))
        v_BHTE, rates_BHT2 = self.value(v_BHTE), split_heads(self.rates(x_BTD), self.heads)
        backwards = attention_context.backwards
        log_a_BHT1 = backwards.without_padding(F.logsigmoid(rates_BHT2[..., :1]) / SLOWNESS)
        b_BHT1 = backwards.without_padding(torch.sigmoid(rates_BHT2[..., 1:]))
        if cache is None or cache.begins:
            total_BHT1 = running_sum(log_a_BHT1)
            u_BHTE = self.corrected(k_BHTE, v_BHTE, b_BHT1, total_BHT1, replace(backwards, position_ids_BT=None))
            scores_BHTS = attention_scores(q_BHTE, k_BHTE, scale=1.0)
            pattern_BHTS = self.pattern(scores_BHTS * faded(total_BHT1, total_BHT1, backwards))
            z_BHTE = pattern_BHTS @ u_BHTE
            if cache is not None:
                left_BHT1 = torch.exp(total_BHT1[:, :, -1:] - total_BHT1)
                cache.write("memory", (left_BHT1 * k_BHTE).transpose(2, 3) @ u_BHTE)
        else:
            z_BHTE = self.recur(q_BHTE, k_BHTE, v_BHTE, b_BHT1, log_a_BHT1.exp(), cache)
        z_BHTE = F.rms_norm(z_BHTE, (v_BHTE.shape[-1],), eps=1e-6)
        return z_BHTE * F.silu(split_heads(self.gate(x_BTD), self.heads))

    @staticmethod
    def recur(q_BHTE: Tensor, k_BHTE: Tensor, v_BHTE: Tensor, b_BHT1: Tensor, a_BHT1: Tensor, cache: RecurrentCache) -> Tensor:
        """The same token by token: the recurrence as it is written above, with S transposed."""
        _, heads, length, width = q_BHTE.shape
        memory_BHEE, read = cache.read("memory", q_BHTE, heads, width, width), []
        for at in range(length):
            q_BH1E, k_BH1E, v_BH1E, b_BH11, a_BH11 = (
                each[:, :, at : at + 1] for each in (q_BHTE, k_BHTE, v_BHTE, b_BHT1, a_BHT1)
            )
            memory_BHEE = a_BH11 * memory_BHEE
            memory_BHEE = memory_BHEE + k_BH1E.transpose(2, 3) @ (b_BH11 * (v_BH1E - k_BH1E @ memory_BHEE))
            read.append(q_BH1E @ memory_BHEE)
        cache.write("memory", memory_BHEE)
        return torch.cat(read, dim=2)

    @staticmethod
    def corrected(
        k_BHSE: Tensor, v_BHSE: Tensor, b_BHS1: Tensor, total_BHS1: Tensor, attention_context: AttentionContext
    ) -> Tensor:
        """u of every key: u_t + b_t sum over j < t of fade(t, j) (k_t k_j) u_j = b_t v_t."""
        products_BHSS = attention_scores(k_BHSE, k_BHSE, scale=1.0) * faded(total_BHS1, total_BHS1, attention_context)
        system_BHSS = (b_BHS1 * products_BHSS).tril(-1)
        exact = torch.promote_types(v_BHSE.dtype, torch.float32)  # torch solves no system in half precision
        right_BHSE = (b_BHS1 * v_BHSE).to(exact)
        u_BHSE = torch.linalg.solve_triangular(system_BHSS.to(exact), right_BHSE, upper=False, unitriangular=True)
        return u_BHSE.to(v_BHSE.dtype)


def faded(total_BHT1: Tensor, total_BHS1: Tensor, attention_context: AttentionContext) -> Tensor:
    """What is left of each key at each query: exp of the difference of their sums of log gates; 0 where it is hidden."""
    num_queries, num_keys = total_BHT1.shape[2], total_BHS1.shape[2]
    mask = attention_context.attention_mask(num_queries, num_keys, total_BHS1.device)
    assert mask is not None  # it is causal
    difference_BHTS = (total_BHT1 - total_BHS1.transpose(2, 3)).masked_fill(~mask, -torch.inf)
    return torch.exp(difference_BHTS)
