"""A skip from the embedding to every layer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, final

import torch
from torch import Tensor, nn

from glassformer.model.dims import Dims
from glassformer.model.slots import STACKS, Layer, Stack, StackConfig


@STACKS.variant("embedding_skips")
@final
class EmbeddingSkipsConfig(StackConfig):
    """Each layer reads a x + b x0, with trained numbers a and b by layer and the embedding x0 (modded-nanogpt 2024).

    a starts at 1 and b at 0: the plain stack. With ``backout`` the last vectors lose c times those after the middle layer, c
    trained from 0.2 (nanochat 2026). Two parameters a layer, no FLOPs of matrix products.
    """

    examples: ClassVar[tuple[dict[str, Any], ...]] = ({}, {"backout": True})

    backout: bool = False

    def build(self, dims: Dims) -> EmbeddingSkips:
        return EmbeddingSkips(dims, backout=self.backout)


@final
class EmbeddingSkips(Stack):
    def __init__(self, dims: Dims, *, backout: bool) -> None:
        super().__init__()
        self.stream_L, self.embedding_L = nn.Parameter(torch.ones(dims.layers)), nn.Parameter(torch.zeros(dims.layers))
        self.backout = nn.Parameter(torch.tensor([0.2])) if backout else None

    def forward(self, x_BTD: Tensor, layers: Sequence[Layer]) -> Tensor:
        embedded_BTD = middle_BTD = x_BTD
        for number, (layer, a, b) in enumerate(zip(layers, self.stream_L, self.embedding_L, strict=True)):
            x_BTD = layer((a * x_BTD + b * embedded_BTD).to(x_BTD.dtype))
            if number == len(layers) // 2:
                middle_BTD = x_BTD
        return x_BTD if self.backout is None else (x_BTD - self.backout * middle_BTD).to(x_BTD.dtype)
