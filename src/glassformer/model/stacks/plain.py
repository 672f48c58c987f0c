"""The plain stack: every layer reads what the one before it wrote."""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

from torch import Tensor

from glassformer.model.dims import Dims
from glassformer.model.slots import STACKS, Layer, Stack, StackConfig


@STACKS.variant("plain")
@final
class PlainConfig(StackConfig):
    """One block after another (Vaswani et al. 2017)."""

    def build(self, dims: Dims) -> Plain:
        return Plain()


@final
class Plain(Stack):
    def forward(self, x_BTD: Tensor, layers: Sequence[Layer]) -> Tensor:
        for layer in layers:
            x_BTD = layer(x_BTD)
        return x_BTD
