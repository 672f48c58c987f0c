"""Learned positions: one trained vector per position."""

from __future__ import annotations

from typing import Any, ClassVar, final

from pydantic import Field
from torch import Tensor

from glassformer.model.dims import Dims
from glassformer.model.embedding_lookup import Embedding
from glassformer.model.initialisation import start
from glassformer.model.slots import POSITIONS, Positions, PositionsConfig


@POSITIONS.variant("learned")
@final
class LearnedConfig(PositionsConfig):
    """One trained vector per position, added to the token's (Gehring et al. 2017; GPT-2)."""

    applies_to: ClassVar[str] = "embedding"
    examples: ClassVar[tuple[dict[str, Any], ...]] = ({}, {"offset": 2})

    offset: int = Field(default=0, ge=0, le=1 << 10)
    """Rows of the table before that of the first place: RoBERTa has two that no token uses."""

    def build(self, dims: Dims) -> Learned:
        return Learned(dims, offset=self.offset)

    def untrained(self, dims: Dims) -> dict[str, slice]:
        return {"positions.table.weight": slice(0, self.offset)} if self.offset else {}


@final
class Learned(Positions):
    def __init__(self, dims: Dims, *, offset: int = 0) -> None:
        super().__init__()
        self.offset = offset
        self.table = start(Embedding(offset + dims.context, dims.width), "table")

    def embed(self, x_BTD: Tensor, position_ids_BT: Tensor) -> Tensor:
        return x_BTD + self.table(position_ids_BT + self.offset if self.offset else position_ids_BT)
