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

    Number i of a head is paired with number i + E/2 (the layout of GPT-NeoX and Llama); pair i turns by base^(-2i/E). With
    ``fraction`` f only the first f E numbers turn, and E is their number (partial rotary, GPT-J 2021).
    """

    applies_to: ClassVar[str] = "rotation"
    examples: ClassVar[tuple[dict[str, Any], ...]] = ({}, {"base": 100.0}, {"fraction": 0.5})

    base: float = Field(default=10000.0, gt=1)
    fraction: float = Field(default=1.0, gt=0, le=1)
    """The share of each head that turns (rotary_pct, partial_rotary_factor)."""

    def incompatibility(self, dims: Dims) -> str | None:
        turning = self.turning(dims)
        if turning and turning % 2 == 0:
            return None
        share = "" if self.fraction == 1.0 else f", of which model.positions.fraction={self.fraction} is {turning}"
        return (
            f"model.positions=rotary turns pairs of numbers, and a head of {dims.head_width} (model.width={dims.width} over "
            f"model.heads={dims.heads}){share} has an odd one out; choose an even width per head."
        )

    def turning(self, dims: Dims) -> int:
        """How many numbers of a head turn."""
        return int(self.fraction * dims.head_width)

    def build(self, dims: Dims) -> Rotary:
        return Rotary(dims, turning=self.turning(dims), base=self.base)


@final
class Rotary(Positions):
    cos_TE: Tensor
    sin_TE: Tensor

    def __init__(self, dims: Dims, *, turning: int, base: float) -> None:
        super().__init__()
        self.turning = turning
        half = turning // 2
        speed = base ** -(torch.arange(half).double() / half)
        angle_TE = torch.arange(dims.context).double().unsqueeze(-1) * torch.cat([speed, speed])
        self.register_buffer("cos_TE", angle_TE.cos().to(torch.get_default_dtype()), persistent=False)
        self.register_buffer("sin_TE", angle_TE.sin().to(torch.get_default_dtype()), persistent=False)

    def rotate(self, x_BHTE: Tensor, position_ids_BT: Tensor) -> Tensor:
        if x_BHTE.shape[-1] == self.turning:
            return self._turned(x_BHTE, position_ids_BT)
        turning_BHTE, still_BHTE = x_BHTE.split((self.turning, x_BHTE.shape[-1] - self.turning), dim=-1)
        return torch.cat([self._turned(turning_BHTE, position_ids_BT), still_BHTE], dim=-1)

    def _turned(self, x_BHTE: Tensor, position_ids_BT: Tensor) -> Tensor:
        first, second = x_BHTE.chunk(2, dim=-1)
        turned_BHTE = torch.cat([-second, first], dim=-1)  # a quarter turn of every pair
        cos_B1TE, sin_B1TE = self.cos_TE[position_ids_BT].unsqueeze(1), self.sin_TE[position_ids_BT].unsqueeze(1)
        return (x_BHTE * cos_B1TE + turned_BHTE * sin_B1TE).to(x_BHTE.dtype)
