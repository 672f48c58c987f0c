"""Blocks that are used several times: fewer parameters, as many layers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Literal, final

from pydantic import Field
from torch import Tensor, nn

from glassformer.model.dims import Dims
from glassformer.model.slots import STACKS, Layer, Stack, StackConfig


@STACKS.variant("shared")
@final
class SharedConfig(StackConfig):
    """Blocks used several times: ALBERT (Lan et al. 2019; one block), looped and Universal Transformers (Dehghani et al. 2018).

    ``model.layers`` counts how often a block is applied; ``blocks`` of them have weights. A list over the layers is one over
    the blocks here. Each application has a cache of its own. FLOPs are those of the plain stack.
    """

    examples: ClassVar[tuple[dict[str, Any], ...]] = ({}, {"blocks": 2, "order": "repeat"}, {"layer_vectors": True})

    blocks: int = Field(default=1, ge=1)
    """How many blocks have weights of their own."""
    order: Literal["loop", "repeat"] = "loop"
    """loop: 0 1 2 0 1 2; repeat: 0 0 1 1 2 2."""
    layer_vectors: bool = False
    """Whether a trained vector of each layer is added to its input, so that it can tell the applications of a block apart."""

    def incompatibility(self, dims: Dims) -> str | None:
        if dims.layers % self.blocks == 0:
            return None
        return f"model.stack.blocks={self.blocks} must divide model.layers={dims.layers}, so that each is used equally often."

    def block_of(self, dims: Dims, layer: int) -> int:
        return layer % self.blocks if self.order == "loop" else layer * self.blocks // dims.layers

    def build(self, dims: Dims) -> Shared:
        return Shared(dims, layer_vectors=self.layer_vectors)


@final
class Shared(Stack):
    def __init__(self, dims: Dims, *, layer_vectors: bool) -> None:
        super().__init__()
        self.layer_vectors = nn.Embedding(dims.layers, dims.width) if layer_vectors else None

    def forward(self, x_BTD: Tensor, layers: Sequence[Layer]) -> Tensor:
        for number, layer in enumerate(layers):
            if self.layer_vectors is not None:
                x_BTD = x_BTD + self.layer_vectors.weight[number].to(x_BTD.dtype)
            x_BTD = layer(x_BTD)
        return x_BTD
