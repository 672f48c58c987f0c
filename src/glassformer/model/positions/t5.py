"""T5's relative bias: a learned number per head and distance, far distances sharing theirs."""

from __future__ import annotations

import math
from typing import Any, ClassVar, final

import torch
from pydantic import Field
from torch import Tensor, nn

from glassformer.model.dims import Dims
from glassformer.model.initialisation import start
from glassformer.model.slots import POSITIONS, Positions, PositionsConfig


@POSITIONS.variant("t5")
@final
class T5Config(PositionsConfig):
    """A learned bias on scores per head and distance, in buckets that widen with it (T5, Raffel et al. 2020).

    One table for all layers. Half of the buckets are single distances, the others grow logarithmically up to ``reach``,
    and the last takes everything further. An encoder uses half of the buckets for each direction.
    """

    applies_to: ClassVar[str] = "bias"
    examples: ClassVar[tuple[dict[str, Any], ...]] = ({}, {"buckets": 8, "reach": 6})

    buckets: int = Field(default=32, ge=4, multiple_of=4)
    reach: int = Field(default=128, ge=2)

    def incompatibility(self, dims: Dims) -> str | None:
        exact = self.buckets // (2 if dims.causal else 4)
        if self.reach > exact:
            return None
        return (
            f"model.positions.reach={self.reach} must lie beyond the {exact} distances that have buckets of their own "
            f"(model.positions.buckets={self.buckets}); choose a larger reach or fewer buckets."
        )

    def build(self, dims: Dims) -> T5:
        return T5(dims, buckets=self.buckets, reach=self.reach)


@final
class T5(Positions):
    def __init__(self, dims: Dims, *, buckets: int, reach: int) -> None:
        super().__init__()
        self.causal, self.buckets, self.reach = dims.causal, buckets, reach
        self.table = start(nn.Embedding(buckets, dims.heads), "table")

    def bias(self, position_ids_BT: Tensor, num_keys: int) -> Tensor:
        key_S = torch.arange(num_keys, device=position_ids_BT.device)
        distance_BTS = position_ids_BT.unsqueeze(-1) - key_S
        bucket_BTS = bucket_of(distance_BTS, buckets=self.buckets, reach=self.reach, causal=self.causal)
        bias_BTSH: Tensor = self.table(bucket_BTS)
        return bias_BTSH.permute(0, 3, 1, 2)


def bucket_of(distance: Tensor, *, buckets: int, reach: int, causal: bool) -> Tensor:
    """Query minus key -> the number of its bucket. Causal: what lies ahead falls into bucket 0 and is never visible."""
    if causal:
        offset, distance = torch.zeros_like(distance), distance.clamp(min=0)
    else:
        buckets //= 2
        offset, distance = (distance < 0).long() * buckets, distance.abs()
    exact = buckets // 2
    beyond = torch.log(distance.clamp(min=1).double() / exact) / math.log(reach / exact) * (buckets - exact)
    far = (exact + beyond.floor().long()).clamp(max=buckets - 1)
    return offset + torch.where(distance < exact, distance, far)
