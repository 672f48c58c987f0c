"""No positions: the ablation in which only the causal mask tells positions apart."""

from __future__ import annotations

from typing import final

from glassformer.model.dims import Dims
from glassformer.model.slots import POSITIONS, Positions, PositionsConfig


@POSITIONS.variant("none")
@final
class NoneConfig(PositionsConfig):
    """Nothing is added: only the causal mask gives order (Haviv et al. 2022)."""

    def build(self, dims: Dims) -> Positions:
        return Positions()
