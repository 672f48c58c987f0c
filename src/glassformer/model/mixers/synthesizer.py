"""The dense synthesizer: each token makes its own scores of all positions, without looking at any other token."""

from __future__ import annotations

from typing import Any, ClassVar, final

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from glassformer.model.attention import split_heads
from glassformer.model.attention_context import AttentionContext
from glassformer.model.dims import Dims, matmul_flops
from glassformer.model.initialisation import start
from glassformer.model.kv_cache import KVCache
from glassformer.model.slots import MIXERS, MixerConfig, Positions
from glassformer.model.softmax_mixer import SoftmaxMixer


@MIXERS.variant("synthesizer")
@final
class SynthesizerConfig(MixerConfig):
    """Dense synthesizer: softmax(ReLU(X A + b1) B + b2), scores from each token alone (Tay et al. 2020).

    A is width by head width for each head; B is head width by context, one per head or one for all. b2 belongs to B.
    """

    accepts_positions: ClassVar[frozenset[str]] = frozenset({"nothing", "embedding", "bias"})
    examples: ClassVar[tuple[dict[str, Any], ...]] = ({}, {"shared": True}, {"fused": False})

    shared: bool = False
    """One B for all heads of a layer instead of one per head."""
    fused: bool = True
    """Use torch's fused kernel (the columns of B play the keys); False runs the reference implementation."""

    def build(self, dims: Dims) -> Synthesizer:
        return Synthesizer(dims, shared=self.shared, fused=self.fused)

    def flops(self, dims: Dims, batch: int, length: int) -> int:
        projections = matmul_flops(batch * length, dims.width, 2 * dims.width)
        scores_and_values = 2 * matmul_flops(batch, length, length, dims.width)
        return projections + scores_and_values


@final
class Synthesizer(SoftmaxMixer):
    def __init__(self, dims: Dims, *, shared: bool, fused: bool) -> None:
        super().__init__(dims, fused=fused)
        tables = 1 if shared else dims.heads
        self.hidden_and_value = start(nn.Linear(dims.width, 2 * dims.width, bias=dims.bias), "hidden_and_value")
        self.places_HSE = nn.Parameter(torch.empty(tables, dims.context, dims.head_width))  # B, transposed
        self.places_bias_HS = nn.Parameter(torch.empty(tables, dims.context)) if dims.bias else None

    def init_weights(self, generator: torch.Generator) -> None:
        nn.init.normal_(self.places_HSE, std=0.02, generator=generator)
        if self.places_bias_HS is not None:
            nn.init.zeros_(self.places_bias_HS)

    def forward(
        self, x_BTD: Tensor, attention_context: AttentionContext, positions: Positions, cache: KVCache | None
    ) -> Tensor:
        hidden_BHTE, v_BHSE = (split_heads(part, self.heads) for part in self.hidden_and_value(x_BTD).chunk(2, dim=-1))
        hidden_BHTE, v_BHSE = F.relu(hidden_BHTE), self.value(v_BHSE)
        if cache is not None:
            v_BHSE = cache.extend("value", v_BHSE)
        num_keys = v_BHSE.shape[2]
        bias_BHTS = positions.bias(attention_context.query_position_ids(x_BTD.shape[1], x_BTD.device), num_keys)
        places_HSE = self.places_HSE[:, :num_keys]
        if self.takes_fast_path:
            return self.kernel_mix(hidden_BHTE, places_HSE, v_BHSE, attention_context, bias_BHTS)
        scores_BHTS = hidden_BHTE @ places_HSE.transpose(-1, -2)
        if self.places_bias_HS is not None:
            scores_BHTS = scores_BHTS + self.places_bias_HS[:, None, :num_keys]
        return self.mix(scores_BHTS, v_BHSE, attention_context, bias_BHTS)

    def kernel_mix(
        self,
        hidden_BHTE: Tensor,
        places_HSE: Tensor,
        v_BHSE: Tensor,
        attention_context: AttentionContext,
        bias_BHTS: Tensor | None,
    ) -> Tensor:
        """The columns of B play the keys; b2 is one number more in each, met by a hidden number that is always 1."""
        if self.places_bias_HS is not None:
            hidden_BHTE = F.pad(hidden_BHTE, (0, 1), value=1.0)
            places_HSE = torch.cat([places_HSE, self.places_bias_HS[:, : places_HSE.shape[1], None]], dim=-1)
        places_BHSE = places_HSE.expand(len(hidden_BHTE), self.heads, -1, -1)
        return self.attend(hidden_BHTE, places_BHSE, v_BHSE, attention_context, bias_BHTS, scale=1.0)
