"""The values of the first layer, mixed into those of every later one."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import ClassVar, final

import torch
from torch import Tensor, nn

from glassformer.model.dims import Dims
from glassformer.model.slots import STACKS, Layer, Stack, StackConfig


@STACKS.variant("value_residual")
@final
class ValueResidualConfig(StackConfig):
    """Attention of layer l averages (1 - a_l) v_l + a_l v_1, with a trained number a_l, 1/2 at the start (Zhou et al. 2024).

    v_1 are the first layer's values of the same tokens. The cache stores the mixed values: as many numbers as without.
    """

    changes_values: ClassVar[bool] = True

    def build(self, dims: Dims) -> ValueResidual:
        return ValueResidual(dims)

    def incompatibility(self, dims: Dims) -> str | None:
        if dims.layers > 1:
            return None
        return f"model.stack=value_residual has no effect with model.layers={dims.layers}; choose more, or plain."


@final
class ValueResidual(Stack):
    def __init__(self, dims: Dims) -> None:
        super().__init__()
        self.shares = nn.Parameter(torch.full((dims.layers - 1,), 0.5))

    def forward(self, x_BTD: Tensor, layers: Sequence[Layer]) -> Tensor:
        first: list[Tensor] = []

        def remember(values: Tensor) -> Tensor:
            first.append(values)
            return values

        x_BTD = layers[0](x_BTD, values=remember)
        for layer, share in zip(layers[1:], self.shares, strict=True):
            x_BTD = layer(x_BTD, values=partial(_mixed, first[0], share))
        return x_BTD


def _mixed(first_BHSE: Tensor, share: Tensor, values_BHSE: Tensor) -> Tensor:
    return torch.lerp(values_BHSE, first_BHSE, share.to(values_BHSE.dtype))
