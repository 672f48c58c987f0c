"""No mixing: the ablation in which every position keeps to itself."""

from __future__ import annotations

from typing import final

from torch import Tensor

from glassformer.model.attention import split_heads
from glassformer.model.attention_context import AttentionContext
from glassformer.model.dims import Dims
from glassformer.model.kv_cache import KVCache
from glassformer.model.slots import MIXERS, Mixer, MixerConfig, Positions


@MIXERS.variant("none")
@final
class NoneConfig(MixerConfig):
    """Every token keeps its own vector: the ablation that removes mixing, and only mixing."""

    def build(self, dims: Dims) -> NoMixer:
        return NoMixer(dims)


@final
class NoMixer(Mixer):
    def __init__(self, dims: Dims) -> None:
        super().__init__()
        self.heads = dims.heads

    def forward(
        self, x_BTD: Tensor, attention_context: AttentionContext, positions: Positions, cache: KVCache | None
    ) -> Tensor:
        return split_heads(x_BTD, self.heads)
