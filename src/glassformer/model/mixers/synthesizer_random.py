"""The random synthesizer: one table of scores per head, the same for every text."""

from __future__ import annotations

from typing import Any, ClassVar, final

import torch
from torch import Tensor, nn

from glassformer.model.attention import split_heads
from glassformer.model.attention_context import AttentionContext
from glassformer.model.dims import Dims, matmul_flops
from glassformer.model.initialisation import start
from glassformer.model.kv_cache import KVCache
from glassformer.model.slots import MIXERS, MixerConfig, Positions
from glassformer.model.softmax_mixer import SoftmaxMixer


@MIXERS.variant("synthesizer_random")
@final
class SynthesizerRandomConfig(MixerConfig):
    """Random synthesizer: softmax of one table of scores for all texts, random at first and trained (Tay et al. 2020)."""

    accepts_positions: ClassVar[frozenset[str]] = frozenset({"nothing", "embedding", "bias"})
    examples: ClassVar[tuple[dict[str, Any], ...]] = ({}, {"trained": False})

    trained: bool = True
    """Train the table; False leaves it as it was drawn."""

    def build(self, dims: Dims) -> SynthesizerRandom:
        return SynthesizerRandom(dims, trained=self.trained)

    def flops(self, dims: Dims, batch: int, length: int) -> int:
        return matmul_flops(batch * length, dims.width, dims.width) + matmul_flops(batch, length, length, dims.width)

    def backward_flops(self, dims: Dims, batch: int, length: int) -> int:
        if self.trained:
            return super().backward_flops(dims, batch, length)
        # the pattern is fixed, so mixing has one gradient, that of the values
        return 2 * matmul_flops(batch * length, dims.width, dims.width) + matmul_flops(batch, length, length, dims.width)


@final
class SynthesizerRandom(SoftmaxMixer):
    def __init__(self, dims: Dims, *, trained: bool) -> None:
        super().__init__(dims)
        self.values = start(nn.Linear(dims.width, dims.width, bias=dims.bias), "values")
        table_HTS = torch.empty(dims.heads, dims.context, dims.context)
        if trained:
            self.table_HTS = nn.Parameter(table_HTS)
        else:
            self.register_buffer("table_HTS", table_HTS)

    def init_weights(self, generator: torch.Generator) -> None:
        nn.init.normal_(self.table_HTS, generator=generator)

    def forward(
        self, x_BTD: Tensor, attention_context: AttentionContext, positions: Positions, cache: KVCache | None
    ) -> Tensor:
        position_ids_BT = attention_context.query_position_ids(x_BTD.shape[1], x_BTD.device)
        v_BHSE = self.value(split_heads(self.values(x_BTD), self.heads))
        if cache is not None:
            v_BHSE = cache.extend("value", v_BHSE)
        num_keys = v_BHSE.shape[2]
        scores_BHTS = self.table_HTS[:, position_ids_BT, :num_keys].transpose(0, 1)
        return self.mix(scores_BHTS, v_BHSE, attention_context, positions.bias(position_ids_BT, num_keys))
