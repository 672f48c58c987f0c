"""Differential attention: the difference of two softmax patterns, so that what both attend to cancels."""

from __future__ import annotations

import math
from typing import ClassVar, final

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from glassformer.model.attention import attention_pattern, attention_scores, split_heads
from glassformer.model.attention_context import AttentionContext
from glassformer.model.dims import Dims, matmul_flops
from glassformer.model.initialisation import start
from glassformer.model.kv_cache import KVCache
from glassformer.model.slots import MIXERS, Mixer, MixerConfig, Positions
from glassformer.model.tap import BY_HEAD, PATTERN, Tap


@MIXERS.variant("differential")
@final
class DifferentialConfig(MixerConfig):
    """(softmax(q1 k1) - c softmax(q2 k2)) V, then a norm of each head; c is learned and starts by depth (Ye et al. 2024).

    The two halves of a head's queries and keys make the two patterns (its even and its odd numbers, so that rotations stay
    whole). c = exp(a1 b1) - exp(a2 b2) + c0 with c0 = 0.8 - 0.6 exp(-0.3 layer); the heads are scaled by 1 - c0.
    Cost: softmax attention's products; the scores are formed.
    """

    accepts_positions: ClassVar[frozenset[str]] = frozenset({"nothing", "embedding", "rotation", "bias"})

    def incompatibility(self, dims: Dims) -> str | None:
        if dims.head_width % 4 == 0:
            return None
        return (
            f"model.mixer=differential halves the pairs of each head, so the width of a head, {dims.head_width}, must be a "
            "multiple of 4; choose another model.width or model.heads."
        )

    def build(self, dims: Dims) -> Differential:
        return Differential(dims)

    def flops(self, dims: Dims, batch: int, length: int) -> int:
        return matmul_flops(batch * length, dims.width, 3 * dims.width) + 2 * matmul_flops(batch, length, length, dims.width)


@final
class Differential(Mixer):
    def __init__(self, dims: Dims) -> None:
        super().__init__()
        self.heads = dims.heads
        self.qkv = start(nn.Linear(dims.width, 3 * dims.width, bias=dims.bias), "qkv")
        self.lambda_4E = nn.Parameter(torch.empty(4, dims.head_width // 2))
        self.head_norm_E = nn.Parameter(torch.empty(dims.head_width))
        self.start = 0.8 - 0.6 * math.exp(-0.3 * dims.layer)
        self.pattern_dropout = nn.Dropout(dims.dropout)
        self.query, self.key, self.value, self.pattern = Tap(BY_HEAD), Tap(BY_HEAD), Tap(BY_HEAD), Tap(PATTERN, averages=False)

    def init_weights(self, generator: torch.Generator) -> None:
        nn.init.normal_(self.lambda_4E, std=0.1, generator=generator)
        nn.init.ones_(self.head_norm_E)

    @property
    def share(self) -> Tensor:
        """c: how much of the second pattern is taken away."""
        a1, b1, a2, b2 = self.lambda_4E
        return torch.exp((a1 * b1).sum()) - torch.exp((a2 * b2).sum()) + self.start

    def forward(
        self, x_BTD: Tensor, attention_context: AttentionContext, positions: Positions, cache: KVCache | None
    ) -> Tensor:
        position_ids_BT = attention_context.query_position_ids(x_BTD.shape[1], x_BTD.device)
        q_BHTE, k_BHSE, v_BHSE = (split_heads(part, self.heads) for part in self.qkv(x_BTD).chunk(3, dim=-1))
        q_BHTE = self.query(positions.rotate(q_BHTE, position_ids_BT))
        k_BHSE, v_BHSE = self.key(positions.rotate(k_BHSE, position_ids_BT)), self.value(v_BHSE)
        if cache is not None:
            k_BHSE, v_BHSE = cache.extend("key", k_BHSE), cache.extend("value", v_BHSE)
        bias_BHTS = positions.bias(position_ids_BT, k_BHSE.shape[2])
        mask = attention_context.attention_mask(q_BHTE.shape[2], k_BHSE.shape[2], x_BTD.device)
        patterns = []
        for half in (0, 1):
            scores_BHTS = attention_scores(q_BHTE[..., half::2], k_BHSE[..., half::2])
            patterns.append(attention_pattern(scores_BHTS if bias_BHTS is None else scores_BHTS + bias_BHTS, mask))
        pattern_BHTS = self.pattern(patterns[0] - self.share * patterns[1])
        z_BHTE = self.pattern_dropout(pattern_BHTS) @ v_BHSE
        normed_BHTE = F.rms_norm(z_BHTE, (z_BHTE.shape[-1],), self.head_norm_E.to(z_BHTE.dtype), eps=1e-5)
        return (1 - self.start) * normed_BHTE
