"""Learned positions: one trained vector per position."""

from __future__ import annotations

from typing import ClassVar, final

from torch import Tensor

from glassformer.model.dims import Dims
from glassformer.model.lookup import Lookup
from glassformer.model.slots import POSITIONS, Positions, PositionsConfig


@POSITIONS.variant("learned")
@final
class LearnedConfig(PositionsConfig):
    """One trained vector per position, added to the token's (Gehring et al. 2017; GPT-2)."""

    enters: ClassVar[str] = "embedding"

    def build(self, dims: Dims) -> Learned:
        return Learned(dims)

    def parameters(self, dims: Dims) -> int:
        return dims.context * dims.width


@final
class Learned(Positions):
    def __init__(self, dims: Dims) -> None:
        super().__init__()
        self.table = Lookup(dims.context, dims.width)

    def embed(self, x_BTD: Tensor, position_ids_BT: Tensor) -> Tensor:
        return x_BTD + self.table(position_ids_BT)
