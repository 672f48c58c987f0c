"""Skips from the first half of the layers to the second, mirrored."""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

import torch
from torch import Tensor, nn

from glassformer.model.dims import Dims
from glassformer.model.slots import STACKS, Layer, Stack, StackConfig


@STACKS.variant("unet")
@final
class UNetConfig(StackConfig):
    """The last layer also reads what the first wrote, the last but one what the second wrote, and so on (modded-nanogpt 2024).

    x + w y with y from the layer's mirror image and one trained number w a skip, which starts at 1. With an odd number of
    layers the middle one has no skip.
    """

    def incompatibility(self, dims: Dims) -> str | None:
        if dims.layers > 1:
            return None
        return f"model.stack=unet has no effect with model.layers={dims.layers}: a skip needs two; choose more, or plain."

    def build(self, dims: Dims) -> UNet:
        return UNet(dims)


@final
class UNet(Stack):
    def __init__(self, dims: Dims) -> None:
        super().__init__()
        self.weights = nn.Parameter(torch.ones(dims.layers // 2))

    def forward(self, x_BTD: Tensor, layers: Sequence[Layer]) -> Tensor:
        half, written = len(layers) // 2, list[Tensor]()
        for number, layer in enumerate(layers):
            if number >= len(layers) - half:
                mirror = len(layers) - 1 - number
                x_BTD = (x_BTD + self.weights[mirror] * written[mirror]).to(x_BTD.dtype)
            x_BTD = layer(x_BTD)
            written.append(x_BTD)
        return x_BTD
