"""Cross-attention: queries of the target, keys and values of the source."""

from __future__ import annotations

from typing import Any, ClassVar, final

from pydantic import Field
from torch import Tensor, nn

from glassformer.model.attention import split_heads
from glassformer.model.attention_context import AttentionContext
from glassformer.model.dims import Dims, matmul_flops
from glassformer.model.initialisation import start
from glassformer.model.kv_cache import LayerCache
from glassformer.model.slots import CROSS, CrossConfig, Positions
from glassformer.model.softmax_mixer import SoftmaxMixer
from glassformer.model.tap import BY_HEAD, Tap


@CROSS.variant("dot")
@final
class DotCrossConfig(CrossConfig):
    """Softmax of scaled dot products of the target's queries and the source's keys (Vaswani et al. 2017)."""

    examples: ClassVar[tuple[dict[str, Any], ...]] = ({}, {"fused": False}, {"scale": 1.0})

    scale: float | None = Field(default=None, gt=0)
    """The factor on the dot products: 1 leaves them unscaled (T5); none: 1/sqrt(head width)."""
    fused: bool = True
    """Use torch's fused kernel; False runs the reference implementation."""

    def build(self, dims: Dims) -> DotCross:
        return DotCross(dims, fused=self.fused, scale=self.scale)

    def flops(self, dims: Dims, batch: int, length: int) -> int:
        projections = matmul_flops(batch * length, dims.width, 3 * dims.attention_width)
        return projections + 2 * matmul_flops(batch, length, length, dims.attention_width)


@final
class DotCross(SoftmaxMixer):
    def __init__(self, dims: Dims, *, fused: bool, scale: float | None = None) -> None:
        super().__init__(dims, fused=fused)
        self.layer, self.scale = dims.layer, scale
        self.to_query = start(nn.Linear(dims.width, dims.attention_width, bias=dims.bias), "to_query")
        self.to_key_value = start(nn.Linear(dims.width, 2 * dims.attention_width, bias=dims.bias), "to_key_value")
        self.query, self.key = Tap(BY_HEAD), Tap(BY_HEAD)

    def forward(
        self, x_BTD: Tensor, attention_context: AttentionContext, positions: Positions, cache: LayerCache | None
    ) -> Tensor:
        """Of ``attention_context`` only the memory counts: the source has no order that masks, and positions of its own."""
        memory = attention_context.required_memory
        q_BHTE = self.query(split_heads(self.to_query(x_BTD), self.heads))
        if self.layer in memory.stored:
            k_BHSE, v_BHSE = memory.stored[self.layer]
        else:
            k_BHSE, v_BHSE = (split_heads(part, self.heads) for part in self.to_key_value(memory.vectors_BSD).chunk(2, dim=-1))
            k_BHSE, v_BHSE = self.key(k_BHSE), self.value(v_BHSE)
            if memory.keep:
                memory.stored[self.layer] = k_BHSE, v_BHSE
        source = AttentionContext(causal=False, key_padding_mask_BS=memory.padding_BS)
        return self.attend(q_BHTE, k_BHSE, v_BHSE, source, None, scale=self.scale)
