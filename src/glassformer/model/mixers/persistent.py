"""Attention with persistent memory: learned keys and values that every query sees beside the tokens'."""

from __future__ import annotations

from typing import Any, ClassVar, final

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn

from glassformer.model.attention import attention_pattern, attention_scores, split_heads
from glassformer.model.attention_context import AttentionContext
from glassformer.model.dims import Dims, matmul_flops
from glassformer.model.initialisation import start
from glassformer.model.kv_cache import KVCache
from glassformer.model.slots import MIXERS, Mixer, MixerConfig, Positions
from glassformer.model.tap import BY_HEAD, PATTERN, Tap


@MIXERS.variant("persistent")
@final
class PersistentConfig(MixerConfig):
    """Softmax over the tokens' keys and ``slots`` learned ones per head (persistent memory, Sukhbaatar et al. 2019).

    In the paper the memory replaces the feed-forward. Positions do not turn it and add nothing to its scores. Cost: so many
    more keys and values for every query, without a token.
    """

    accepts_positions: ClassVar[frozenset[str]] = frozenset({"nothing", "embedding", "rotation", "bias"})
    examples: ClassVar[tuple[dict[str, Any], ...]] = ({"slots": 5}, {})

    slots: int = Field(default=64, ge=1)
    """Learned keys and values of each head."""

    def build(self, dims: Dims) -> Persistent:
        return Persistent(dims, slots=self.slots)

    def flops(self, dims: Dims, batch: int, length: int) -> int:
        projections = matmul_flops(batch * length, dims.width, 3 * dims.width)
        return projections + 2 * matmul_flops(batch, length, length + self.slots, dims.width)


@final
class Persistent(Mixer):
    def __init__(self, dims: Dims, *, slots: int) -> None:
        super().__init__()
        self.heads, self.slots = dims.heads, slots
        self.qkv = start(nn.Linear(dims.width, 3 * dims.width, bias=dims.bias), "qkv")
        self.memory_keys_HSE, self.memory_values_HSE = (
            nn.Parameter(torch.empty(dims.heads, slots, dims.head_width)) for _ in range(2)
        )
        self.pattern_dropout = nn.Dropout(dims.dropout)
        self.query, self.key, self.value, self.pattern = Tap(BY_HEAD), Tap(BY_HEAD), Tap(BY_HEAD), Tap(PATTERN, averages=False)

    def init_weights(self, generator: torch.Generator) -> None:
        nn.init.normal_(self.memory_keys_HSE, std=0.02, generator=generator)
        nn.init.normal_(self.memory_values_HSE, std=0.02, generator=generator)

    def forward(
        self, x_BTD: Tensor, attention_context: AttentionContext, positions: Positions, cache: KVCache | None
    ) -> Tensor:
        position_ids_BT = attention_context.query_position_ids(x_BTD.shape[1], x_BTD.device)
        q_BHTE, k_BHSE, v_BHSE = (split_heads(part, self.heads) for part in self.qkv(x_BTD).chunk(3, dim=-1))
        q_BHTE = self.query(positions.rotate(q_BHTE, position_ids_BT))
        k_BHSE, v_BHSE = self.key(positions.rotate(k_BHSE, position_ids_BT)), self.value(v_BHSE)
        if cache is not None:
            k_BHSE, v_BHSE = cache.extend("key", k_BHSE), cache.extend("value", v_BHSE)
        tokens, rows = k_BHSE.shape[2], len(x_BTD)
        k_BHSE = torch.cat([k_BHSE, self.memory_keys_HSE.to(k_BHSE.dtype).expand(rows, -1, -1, -1)], dim=2)
        v_BHSE = torch.cat([v_BHSE, self.memory_values_HSE.to(v_BHSE.dtype).expand(rows, -1, -1, -1)], dim=2)
        scores_BHTS, bias_BHTS = attention_scores(q_BHTE, k_BHSE), positions.bias(position_ids_BT, tokens)
        if bias_BHTS is not None:
            scores_BHTS = scores_BHTS + F.pad(bias_BHTS, (0, self.slots))
        mask = attention_context.attention_mask(q_BHTE.shape[2], tokens, x_BTD.device)
        mask = None if mask is None else F.pad(mask, (0, self.slots), value=True)
        of_tokens, of_memory = attention_pattern(scores_BHTS, mask).split((tokens, self.slots), dim=-1)
        pattern_BHTS = torch.cat([self.pattern(of_tokens), of_memory], dim=-1)  # who looks sees the tokens
        return self.pattern_dropout(pattern_BHTS) @ v_BHSE
