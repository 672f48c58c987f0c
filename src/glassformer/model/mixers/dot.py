"""Softmax dot-product attention: vectors -> queries, keys, values -> outputs per head.

``Dot.forward`` makes q, k and v; ``SoftmaxMixer.attend`` (model/softmax_mixer.py) does the rest by the equations of
model/attention.py, or by torch's fused kernel, which a test holds equal.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, final

import torch
from pydantic import Field
from torch import Tensor, nn

from glassformer.model.attention import split_heads
from glassformer.model.attention_context import AttentionContext
from glassformer.model.dims import Dims, matmul_flops
from glassformer.model.initialisation import start
from glassformer.model.kv_cache import KVCache
from glassformer.model.slots import MIXERS, MixerConfig, Positions
from glassformer.model.softmax_mixer import SoftmaxMixer
from glassformer.model.tap import BY_HEAD, Tap


@MIXERS.variant("dot")
@final
class DotConfig(MixerConfig):
    """Softmax of scaled dot products of queries and keys (Vaswani et al. 2017)."""

    any_head_width: ClassVar[bool] = True
    accepts_positions: ClassVar[frozenset[str]] = frozenset({"nothing", "embedding", "rotation", "bias"})
    examples: ClassVar[tuple[dict[str, Any], ...]] = ({}, {"fused": False}, {"scale": 1.0}, {"masked": [0, 3]})

    fused: bool = True
    """Use torch's fused kernel; False runs the reference implementation."""
    scale: float | None = Field(default=None, gt=0)
    """The factor on the dot products: 1 leaves them unscaled; none: 1/sqrt(head width)."""
    masked: list[int] = Field(default=[])
    """Positions, counted from 0, that no query may attend to, in every layer."""

    def incompatibility(self, dims: Dims) -> str | None:
        outside = [position for position in self.masked if not 0 <= position < dims.context]
        if not outside:
            return None
        return (
            f"model.mixer.masked={self.masked}: position {outside[0]} is not in the context; positions go from 0 to "
            f"{dims.context - 1} (model.context={dims.context})."
        )

    def build(self, dims: Dims) -> Dot:
        return Dot(dims, fused=self.fused, scale=self.scale, masked=self.masked)

    def parameters(self, dims: Dims) -> int:
        return dims.linear_parameters(dims.width, 3 * dims.attention_width)

    def flops(self, dims: Dims, batch: int, length: int) -> int:
        projections = matmul_flops(batch * length, dims.width, 3 * dims.attention_width)
        scores_and_values = 2 * matmul_flops(batch, length, length, dims.attention_width)
        return projections + scores_and_values


@final
class Dot(SoftmaxMixer):
    masked_S: Tensor | None

    def __init__(self, dims: Dims, *, fused: bool, scale: float | None = None, masked: Sequence[int] = ()) -> None:
        super().__init__(dims, fused=fused)
        self.qkv = start(nn.Linear(dims.width, 3 * dims.attention_width, bias=dims.bias), "qkv")
        self.query, self.key = Tap(BY_HEAD), Tap(BY_HEAD)
        self.scale = scale
        masked_S = torch.isin(torch.arange(dims.context), torch.tensor(masked, dtype=torch.long)) if masked else None
        self.register_buffer("masked_S", masked_S, persistent=False)

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
        bias_BHTS = positions.bias(position_ids_BT, k_BHSE.shape[2])
        attention_context = attention_context.without_keys(self.masked_S)
        return self.attend(q_BHTE, k_BHSE, v_BHSE, attention_context, bias_BHTS, scale=self.scale)
