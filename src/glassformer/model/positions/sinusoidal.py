"""Sinusoidal positions: fixed waves of geometric wavelengths, added to the tokens."""

from __future__ import annotations

from typing import Any, ClassVar, final

import torch
from pydantic import Field
from torch import Tensor

from glassformer.model.dims import Dims
from glassformer.model.slots import POSITIONS, Positions, PositionsConfig


@POSITIONS.variant("sinusoidal")
@final
class SinusoidalConfig(PositionsConfig):
    """Fixed sines and cosines of geometric wavelengths, added to the token's vector (Vaswani et al. 2017).

    Number i of position k is sin(k / base^(i/d)) for even i; the odd number after it is the cosine of the same angle.
    """

    enters: ClassVar[str] = "embedding"
    examples: ClassVar[tuple[dict[str, Any], ...]] = ({}, {"scale": 0.02})

    base: float = Field(default=10000.0, gt=1)
    scale: float = Field(default=1.0, gt=0)
    """A factor on the waves; token vectors start with a standard deviation of 0.02."""

    def build(self, dims: Dims) -> Sinusoidal:
        return Sinusoidal(dims, base=self.base, scale=self.scale)


@final
class Sinusoidal(Positions):
    table_TD: Tensor

    def __init__(self, dims: Dims, *, base: float, scale: float) -> None:
        super().__init__()
        table_TD = scale * sinusoids(dims.context, dims.width, base=base)
        self.register_buffer("table_TD", table_TD.to(torch.get_default_dtype()), persistent=False)

    def embed(self, x_BTD: Tensor, position_ids_BT: Tensor) -> Tensor:
        return x_BTD + self.table_TD[position_ids_BT]


def sinusoids(length: int, width: int, *, base: float) -> Tensor:
    """The waves in float64, [T, D]."""
    column_D = torch.arange(width)
    even_D = (column_D - column_D % 2).double()
    angle_TD = torch.arange(length).double().unsqueeze(-1) / base ** (even_D / width)
    return torch.where(column_D % 2 == 0, angle_TD.sin(), angle_TD.cos())
