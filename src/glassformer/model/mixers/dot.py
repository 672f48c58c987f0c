"""Softmax dot-product attention: vectors -> queries, keys, values -> outputs per head.

``Dot.forward`` makes q, k and v; ``SoftmaxMixer.attend`` (model/softmax_mixer.py) does the rest by the equations of
model/attention.py, or by torch's fused kernel, which a test holds equal. Five slots inside it are empty unless a recipe
fills them: ``qk``, ``values``, ``scores``, ``normaliser`` and ``output`` (a folder each, in model/).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any, ClassVar, final

import torch
from pydantic import BeforeValidator, Field, SerializeAsAny
from torch import Tensor, nn

from glassformer.model.attention import split_heads
from glassformer.model.attention_context import AttentionContext
from glassformer.model.dims import Dims, matmul_flops
from glassformer.model.initialisation import keyed, start
from glassformer.model.kv_cache import CachePlacement, KVCache, RingCache
from glassformer.model.slots import (
    MIXERS,
    NORMALISERS,
    OUTPUTS,
    QUERY_KEY_MAPS,
    SCORE_MAPS,
    VALUE_MAPS,
    HeadOutput,
    MixerConfig,
    Normaliser,
    NormaliserConfig,
    OutputConfig,
    PartConfig,
    Positions,
    QueryKeyConfig,
    QueryKeyMap,
    ScoreConfig,
    ScoreMap,
    ValueConfig,
    ValueMap,
)
from glassformer.model.softmax_mixer import SoftmaxMixer
from glassformer.model.tap import BY_HEAD, Tap

RING_PAYS = 4
"""From a capacity of so many windows on, the cache is a ring. A row of it cannot go back, so shorter ones keep all keys."""


class DotSettings(MixerConfig):
    """Everything that softmax attention can be told; ``grouped`` differs from ``dot`` in one default."""

    any_head_width: ClassVar[bool] = True
    lends_values: ClassVar[bool] = True
    lends_keys: ClassVar[bool] = True
    accepts_positions: ClassVar[frozenset[str]] = frozenset({"nothing", "embedding", "rotation", "bias"})

    kv_heads: int | None = Field(default=None, ge=1)
    """Heads of keys and values, each shared by a group of query heads (GQA): 1 is multi-query attention; none: model.heads."""
    window: int | None = Field(default=None, ge=1)
    """How many positions a query sees: its own and those just before it (in an encoder: on either side); none: all."""
    scale: float | None = Field(default=None, gt=0)
    """The factor on the dot products: 1 leaves them unscaled; none: 1/sqrt(head width), or what ``qk`` brings."""
    bias: bool | None = None
    """Whether queries, keys and values have biases; none: as the model has."""
    masked: list[int] = Field(default=[])
    """Positions, counted from 0, that no query may attend to, in every layer."""
    qk: Annotated[SerializeAsAny[QueryKeyConfig], BeforeValidator(QUERY_KEY_MAPS.parse)] = QUERY_KEY_MAPS.default("none")
    values: Annotated[SerializeAsAny[ValueConfig], BeforeValidator(VALUE_MAPS.parse)] = VALUE_MAPS.default("none")
    scores: Annotated[SerializeAsAny[ScoreConfig], BeforeValidator(SCORE_MAPS.parse)] = SCORE_MAPS.default("none")
    normaliser: Annotated[SerializeAsAny[NormaliserConfig], BeforeValidator(NORMALISERS.parse)] = NORMALISERS.default("softmax")
    output: Annotated[SerializeAsAny[OutputConfig], BeforeValidator(OUTPUTS.parse)] = OUTPUTS.default("none")
    fused: bool = True
    """Use torch's fused kernel where it can do this; False runs the reference implementation."""

    @property
    def parts(self) -> tuple[PartConfig, ...]:
        """The choices in the slots of attention."""
        return self.qk, self.values, self.scores, self.normaliser, self.output

    def incompatibility(self, dims: Dims) -> str | None:
        kv_heads = self.kv_heads or dims.heads
        if dims.heads % kv_heads:
            fitting = [n for n in range(1, dims.heads + 1) if dims.heads % n == 0]
            return f"model.mixer.kv_heads={kv_heads} must divide model.heads={dims.heads}; use one of {fitting}."
        outside = [position for position in self.masked if not 0 <= position < dims.context]
        if outside:
            return (
                f"model.mixer.masked={self.masked}: position {outside[0]} is not in the context; positions go from 0 to "
                f"{dims.context - 1} (model.context={dims.context})."
            )
        return next(filter(None, (part.incompatibility(self._inner(dims)) for part in self.parts)), None)

    def build(self, dims: Dims) -> Dot:
        return Dot(self._inner(dims), self)

    def untrained(self, dims: Dims) -> dict[str, slice]:
        return {name: rows for part in self.parts for name, rows in part.untrained(self._inner(dims)).items()}

    def flops(self, dims: Dims, batch: int, length: int) -> int:
        projections = matmul_flops(batch * length, dims.width, self._rows(dims))
        scores_and_values = 2 * matmul_flops(batch, length, length, dims.attention_width)
        return projections + scores_and_values + sum(part.flops(self._inner(dims), batch, length) for part in self.parts)

    def cache_width(self, dims: Dims) -> int:
        return 2 * self._inner(dims).kv_heads * dims.head_width

    def cache_positions(self, capacity: int) -> int:
        ring = self.window is not None and capacity >= RING_PAYS * self.window
        return self.window or capacity if ring else capacity

    def has_bias(self, dims: Dims) -> bool:
        """Whether queries, keys and values have biases."""
        return dims.bias if self.bias is None else self.bias

    def _inner(self, dims: Dims) -> Dims:
        return replace(dims, own_kv_heads=self.kv_heads)

    def _rows(self, dims: Dims) -> int:
        """Queries, keys and values of all heads side by side."""
        return dims.attention_width + self.cache_width(dims)


@MIXERS.variant("dot")
@final
class DotConfig(DotSettings):
    """Softmax of scaled dot products of queries and keys (Vaswani et al. 2017); its inner parts can be chosen and crossed."""

    examples: ClassVar[tuple[dict[str, Any], ...]] = (
        {},
        {"fused": False},
        {"scale": 1.0},
        {"masked": [0, 3]},
        {"window": 3},
        {
            "kv_heads": 1,
            "window": 2,
            "qk": "rms",
            "values": "embedding",
            "scores": "softcap",
            "normaliser": "sink",
            "output": "gate",
        },
    )


@final
class Dot(SoftmaxMixer):
    masked_S: Tensor | None

    def __init__(self, dims: Dims, config: DotSettings) -> None:
        parts = {
            slot: keyed(getattr(config, slot).build(dims), f"blocks.{dims.layer}.attention.mixer.{slot}")
            for slot in ("qk", "values", "scores", "normaliser", "output")
        }
        super().__init__(dims, fused=config.fused, score_map=parts["scores"], normaliser=parts["normaliser"])
        self.kv_heads, self.window = dims.kv_heads, config.window
        self.shares_keys = config.kv_heads is not None  # a copy, even in groups of one: kernels round strided keys differently
        of_keys = dims.kv_heads * dims.head_width
        self.sizes = (dims.attention_width, of_keys, of_keys)
        self.qkv = start(nn.Linear(dims.width, sum(self.sizes), bias=config.has_bias(dims)), "qkv")
        self.qk, self.values, self.output = parts["qk"], parts["values"], parts["output"]
        self.scale = self.qk.scale if config.scale is None else config.scale
        self.query, self.key = Tap(BY_HEAD), Tap(BY_HEAD)
        masked = torch.tensor(config.masked, dtype=torch.long)
        masked_S = torch.isin(torch.arange(dims.context), masked) if config.masked else None
        self.register_buffer("masked_S", masked_S, persistent=False)

    def forward(
        self, x_BTD: Tensor, attention_context: AttentionContext, positions: Positions, cache: KVCache | RingCache | None
    ) -> Tensor:
        position_ids_BT = attention_context.query_position_ids(x_BTD.shape[1], x_BTD.device)
        q_BTD, k_BTG, v_BTG = self.qkv(x_BTD).split(self.sizes, dim=-1)
        q_BHTE, k_BGSE = self.qk(split_heads(q_BTD, self.heads), split_heads(k_BTG, self.kv_heads))
        q_BHTE = self.query(positions.rotate(q_BHTE, position_ids_BT))
        k_BGSE = self.key(positions.rotate(k_BGSE, position_ids_BT))
        v_BGSE = self.values(split_heads(v_BTG, self.kv_heads), x_BTD, attention_context.ids_BT)
        v_BGSE = self.value(attention_context.with_values(v_BGSE))
        visible = attention_context.within(self.window).without_keys(self.masked_S)
        if isinstance(cache, RingCache):
            k_BGSE, v_BGSE, at_BS = cache.extend(k_BGSE, v_BGSE)
            visible = replace(visible, key_position_ids_BS=at_BS, num_positions=cache.num_positions)
        elif cache is not None:
            k_BGSE, v_BGSE = cache.extend("key", k_BGSE), cache.extend("value", v_BGSE)
        k_BHSE, v_BHSE = (self.for_every_head(shared) for shared in (k_BGSE, v_BGSE))
        bias_BHTS = visible.bias_of_keys(positions.bias, position_ids_BT, k_BHSE.shape[2])
        attention_context.lend_keys(k_BHSE, v_BHSE, visible)
        return self.output(self.attend(q_BHTE, k_BHSE, v_BHSE, visible, bias_BHTS, scale=self.scale), x_BTD)

    def new_cache(self, placement: CachePlacement) -> KVCache | RingCache:
        if self.window is not None and placement.capacity >= RING_PAYS * self.window:
            return RingCache(placement, self.window)
        return KVCache(placement)

    @property
    def is_plain(self) -> bool:
        """Whether this is softmax of scaled products and nothing else: what other fast paths take for granted."""
        parts = type(self.qk), type(self.values), type(self.score_map), type(self.normaliser), type(self.output)
        usual = self.scale is None and self.window is None and self.masked_S is None and self.kv_heads == self.heads
        return self.fused and usual and parts == (QueryKeyMap, ValueMap, ScoreMap, Normaliser, HeadOutput)

    def for_every_head(self, shared_BGSE: Tensor) -> Tensor:
        """Each head of keys or values, repeated for the queries' heads of its group."""
        if not self.shares_keys:
            return shared_BGSE
        return shared_BGSE.repeat_interleave(self.heads // self.kv_heads, dim=1)
