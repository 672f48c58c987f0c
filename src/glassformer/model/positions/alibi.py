"""ALiBi: scores fall with the distance between query and key, at a slope per head."""

from __future__ import annotations

import math
from typing import Any, ClassVar, final

import torch
from pydantic import Field
from torch import Tensor

from glassformer.model.dims import Dims
from glassformer.model.slots import POSITIONS, Positions, PositionsConfig


@POSITIONS.variant("alibi")
@final
class AlibiConfig(PositionsConfig):
    """Scores fall linearly with distance, each head at a slope of its own (ALiBi, Press et al. 2022).

    An encoder takes the distance in both directions.
    """

    applies_to: ClassVar[str] = "bias"
    examples: ClassVar[tuple[dict[str, Any], ...]] = ({}, {"slope": 1.0})

    slope: float | None = Field(default=None, gt=0)
    """One slope for all heads; nothing: the geometric slopes of the paper."""

    def build(self, dims: Dims) -> Alibi:
        slopes = geometric_slopes(dims.heads) if self.slope is None else [self.slope] * dims.heads
        return Alibi(slopes)


@final
class Alibi(Positions):
    slope_H: Tensor

    def __init__(self, slopes: list[float]) -> None:
        super().__init__()
        self.register_buffer("slope_H", torch.tensor(slopes), persistent=False)

    def bias(self, position_ids_BT: Tensor, num_keys: int) -> Tensor:
        key_S = torch.arange(num_keys, device=position_ids_BT.device)
        distance_B1TS = (position_ids_BT[:, None, :, None] - key_S).abs()
        return -self.slope_H[:, None, None] * distance_B1TS


def geometric_slopes(heads: int) -> list[float]:
    """2^(-8/n), 2^(-16/n), ...; for other numbers of heads than powers of two, filled up from the next power."""
    power = 2 ** math.floor(math.log2(heads))
    slopes = [2.0 ** (-8.0 * (head + 1) / power) for head in range(power)]
    between = [2.0 ** (-8.0 * (head + 1) / (2 * power)) for head in range(0, 2 * power, 2)]
    return slopes + between[: heads - power]
