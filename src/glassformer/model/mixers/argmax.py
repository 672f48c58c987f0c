"""Argmax attention: each query takes the value of its best key and of no other."""

from __future__ import annotations

from typing import Any, ClassVar, final

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


@MIXERS.variant("argmax")
@final
class ArgmaxConfig(MixerConfig):
    """The value of the best-matching key alone; queries and keys get no gradient (hard attention, after Xu et al. 2015).

    A step has no slope, so queries and keys stay as they were drawn. ``straight_through`` lets the backward pass go
    through the softmax that the forward pass does not use (Bengio et al. 2013).
    """

    accepts_positions: ClassVar[frozenset[str]] = frozenset({"nothing", "embedding", "rotation", "bias"})
    examples: ClassVar[tuple[dict[str, Any], ...]] = ({}, {"straight_through": True})

    straight_through: bool = False
    """Forward: the best key alone. Backward: as if it had been the softmax."""

    def build(self, dims: Dims) -> Argmax:
        return Argmax(dims, straight_through=self.straight_through)

    def untrained(self, dims: Dims) -> dict[str, slice]:
        """Queries and keys: the first two thirds of the rows of ``qkv``."""
        if self.straight_through:
            return {}
        return {name: slice(0, 2 * dims.width) for name in (["qkv.weight", "qkv.bias"] if dims.bias else ["qkv.weight"])}

    def flops(self, dims: Dims, batch: int, length: int) -> int:
        projections = matmul_flops(batch * length, dims.width, 3 * dims.width)
        scores_and_values = 2 * matmul_flops(batch, length, length, dims.width)
        return projections + scores_and_values

    def backward_flops(self, dims: Dims, batch: int, length: int) -> int:
        if self.straight_through:
            return super().backward_flops(dims, batch, length)
        # no gradient of scores and pattern: beside the projections' only that of the values
        return 2 * matmul_flops(batch * length, dims.width, 3 * dims.width) + matmul_flops(batch, length, length, dims.width)


@final
class Argmax(Mixer):
    """No dropout inside: there are no weights to thin out, only a choice."""

    def __init__(self, dims: Dims, *, straight_through: bool) -> None:
        super().__init__()
        self.heads, self.straight_through = dims.heads, straight_through
        self.qkv = start(nn.Linear(dims.width, 3 * dims.width, bias=dims.bias), "qkv")
        self.query, self.key, self.value = Tap(BY_HEAD), Tap(BY_HEAD), Tap(BY_HEAD)
        self.scores, self.pattern = Tap(PATTERN), Tap(PATTERN)

    def forward(
        self, x_BTD: Tensor, attention_context: AttentionContext, positions: Positions, cache: KVCache | None
    ) -> Tensor:
        position_ids_BT = attention_context.query_position_ids(x_BTD.shape[1], x_BTD.device)
        q_BHTE, k_BHSE, v_BHSE = (split_heads(part, self.heads) for part in self.qkv(x_BTD).chunk(3, dim=-1))
        q_BHTE = self.query(positions.rotate(q_BHTE, position_ids_BT))
        k_BHSE = self.key(positions.rotate(k_BHSE, position_ids_BT))
        v_BHSE = self.value(v_BHSE)
        if cache is not None:
            k_BHSE, v_BHSE = cache.extend("key", k_BHSE), cache.extend("value", v_BHSE)
        scores_BHTS, bias_BHTS = attention_scores(q_BHTE, k_BHSE), positions.bias(position_ids_BT, k_BHSE.shape[2])
        if bias_BHTS is not None:
            scores_BHTS = scores_BHTS + bias_BHTS
        return self.mix(
            self.scores(scores_BHTS), v_BHSE, attention_context.attention_mask(q_BHTE.shape[2], k_BHSE.shape[2], x_BTD.device)
        )

    def mix(self, scores_BHTS: Tensor, v_BHSE: Tensor, mask: Tensor | None) -> Tensor:
        masked_BHTS = scores_BHTS if mask is None else scores_BHTS.masked_fill(~mask, -torch.inf)
        best_BHT1 = masked_BHTS.argmax(dim=-1, keepdim=True)  # of equals the earliest
        nothing = None if mask is None else ~mask.any(dim=-1, keepdim=True)
        if self.straight_through or self.pattern.in_use:
            pattern_BHTS = self.pattern(self.one_hot(best_BHT1, scores_BHTS, mask, nothing))
            return pattern_BHTS @ v_BHSE
        z_BHTE = v_BHSE.gather(2, best_BHT1.expand(-1, -1, -1, v_BHSE.shape[-1]))  # the fast path: no products with zeros
        return z_BHTE if nothing is None else z_BHTE.masked_fill(nothing, 0.0)

    def one_hot(self, best_BHT1: Tensor, scores_BHTS: Tensor, mask: Tensor | None, nothing: Tensor | None) -> Tensor:
        """The reference implementation: a pattern with a single one in each row that sees anything."""
        hard_BHTS = F.one_hot(best_BHT1.squeeze(-1), scores_BHTS.shape[-1]).to(scores_BHTS.dtype)
        if nothing is not None:
            hard_BHTS = hard_BHTS.masked_fill(nothing, 0.0)
        if not self.straight_through:
            return hard_BHTS
        soft_BHTS = attention_pattern(scores_BHTS, mask)
        return hard_BHTS + (soft_BHTS - soft_BHTS.detach())  # the bracket is zero, its gradient is the softmax's
