"""The sizes of one model: what arrives at build time, while configs hold only choices."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Dims:
    """Sizes and the few choices that every part shares."""

    width: int
    heads: int
    layers: int
    context: int
    vocabulary: int
    dropout: float = 0.0
    bias: bool = True
    causal: bool = True
    outputs: int | None = None
    """Numbers the head gives where they are not scores of the vocabulary (classes, say)."""
    layer: int = 0
    """Which layer a part is built for or counted in, from 0."""
    own_head_width: int | None = None
    """The width of a head of attention where it is not the heads' share of the width."""
    own_kv_heads: int | None = None
    """Heads of keys and values where they are fewer than those of queries."""

    @property
    def num_outputs(self) -> int:
        """Width of what the head gives."""
        return self.vocabulary if self.outputs is None else self.outputs

    @property
    def scores_tokens(self) -> bool:
        """Whether what the head gives is a score for each token of the vocabulary."""
        return self.num_outputs == self.vocabulary

    @property
    def head_width(self) -> int:
        return self.width // self.heads if self.own_head_width is None else self.own_head_width

    @property
    def kv_heads(self) -> int:
        return self.heads if self.own_kv_heads is None else self.own_kv_heads

    @property
    def attention_width(self) -> int:
        """All heads side by side: what the output projection reads."""
        return self.heads * self.head_width


def matmul_flops(*sizes: int) -> int:
    """Floating-point operations of one (batched) matrix product: two (multiply, add) per inner element."""
    product = 2
    for size in sizes:
        product *= size
    return product
