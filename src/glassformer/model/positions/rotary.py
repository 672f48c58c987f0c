"""Rotary positions: queries and keys are turned by an angle that grows with the position."""

from __future__ import annotations

from typing import Any, ClassVar, final

import torch
from pydantic import Field
from torch import Tensor

from glassformer.model.dims import Dims
from glassformer.model.slots import POSITIONS, Positions, PositionsConfig


@POSITIONS.variant("rotary")
@final
class RotaryConfig(PositionsConfig):
    """Queries and keys rotated by an angle that grows with the position, so scores depend on distance (RoPE, Su et al. 2021).

    Number i of a head is paired with number i + E/2 (the layout of GPT-NeoX and Llama); pair i turns by base^(-2i/E).
    """

    applies_to: ClassVar[str] = "rotation"
    examples: ClassVar[tuple[dict[str, Any], ...]] = ({}, {"base": 100.0})

    base: float = Field(default=10000.0, gt=1)

    def incompatibility(self, dims: Dims) -> str | None:
        if dims.head_width % 2 == 0:
            return None
        return (
            f"model.positions=rotary turns pairs of numbers, and a head of {dims.head_width} (model.width={dims.width} over "
            f"model.heads={dims.heads}) has an odd one out; choose an even width per head."
        )

    def build(self, dims: Dims) -> Rotary:
        return Rotary(dims, base=self.base)


@final
class Rotary(Positions):
    cos_TE: Tensor
    sin_TE: Tensor

    def __init__(self, dims: Dims, *, base: float) -> None:
        super().__init__()
        half = dims.head_width // 2
        speed = base ** -(torch.arange(half).double() / half)
        angle_TE = torch.arange(dims.context).double().unsqueeze(-1) * torch.cat([speed, speed])
        self.register_buffer("cos_TE", angle_TE.cos().to(torch.get_default_dtype()), persistent=False)
        self.register_buffer("sin_TE", angle_TE.sin().to(torch.get_default_dtype()), persistent=False)

    def rotate(self, x_BHTE: Tensor, position_ids_BT: Tensor) -> Tensor:
        first, second = x_BHTE.chunk(2, dim=-1)
        turned_BHTE = torch.cat([-second, first], dim=-1)  # a quarter turn of every pair
        cos_B1TE, sin_B1TE = self.cos_TE[position_ids_BT].unsqueeze(1), self.sin_TE[position_ids_BT].unsqueeze(1)
        return (x_BHTE * cos_B1TE + turned_BHTE * sin_B1TE).to(x_BHTE.dtype)
