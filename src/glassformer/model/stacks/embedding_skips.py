"""A skip from the embedding to every layer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

import torch
from torch import Tensor, nn

from glassformer.model.dims import Dims
from glassformer.model.slots import STACKS, Layer, Stack, StackConfig


@STACKS.variant("embedding_skips")
@final
class EmbeddingSkipsConfig(StackConfig):
    """Each layer reads a x + b x0, with trained numbers a and b by layer and the embedding x0 (modded-nanogpt 2024).

    a starts at 1 and b at 0: the plain stack. Two parameters a layer, no FLOPs of matrix products.
    """

    def build(self, dims: Dims) -> EmbeddingSkips:
        return EmbeddingSkips(dims)

    def parameters(self, dims: Dims) -> int:
        return 2 * dims.layers


@final
class EmbeddingSkips(Stack):
    def __init__(self, dims: Dims) -> None:
        super().__init__()
        self.stream_L, self.embedding_L = nn.Parameter(torch.ones(dims.layers)), nn.Parameter(torch.zeros(dims.layers))

    def forward(self, x_BTD: Tensor, layers: Sequence[Layer]) -> Tensor:
        embedded_BTD = x_BTD
        for layer, a, b in zip(layers, self.stream_L, self.embedding_L, strict=True):
            x_BTD = layer((a * x_BTD + b * embedded_BTD).to(x_BTD.dtype))
        return x_BTD
