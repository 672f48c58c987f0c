"""FIRE: a small network turns the distance, relative to the query's position, into a bias."""

from __future__ import annotations

from typing import Any, ClassVar, final

import torch
from pydantic import Field
from torch import Tensor, nn

from glassformer.model.dims import Dims, matmul_flops
from glassformer.model.initialisation import start
from glassformer.model.slots import POSITIONS, Positions, PositionsConfig


@POSITIONS.variant("fire")
@final
class FireConfig(PositionsConfig):
    """f(log(1 + c d) / log(1 + c max(L, i))) on scores, d the distance, i the query, f an MLP (FIRE, Li et al. 2024).

    c and L are trained. One network for all layers, with a hidden layer of rectified units. For texts longer than those it was
    trained on: what f reads lies between 0 and 1 in a decoder. Cost: the network for each pair and layer; no fused kernel.
    """

    applies_to: ClassVar[str] = "bias"
    examples: ClassVar[tuple[dict[str, Any], ...]] = ({}, {"hidden": 4, "length": 3.0})

    hidden: int = Field(default=32, ge=1)
    """Units of the hidden layer."""
    length: float = Field(default=512.0, gt=0)
    """What L starts at: up to this position distances are not relative to the query's position."""

    def build(self, dims: Dims) -> Fire:
        return Fire(dims.heads, hidden=self.hidden, length=self.length)

    def flops(self, dims: Dims, batch: int, length: int) -> int:
        return dims.layers * matmul_flops(length * length, self.hidden, 1 + dims.heads)


@final
class Fire(Positions):
    def __init__(self, heads: int, *, hidden: int, length: float) -> None:
        super().__init__()
        self.first = start(nn.Linear(1, hidden), "first")
        self.second = start(nn.Linear(hidden, heads, bias=False), "second")  # one number more for all keys would change nothing
        self.log_c, self.log_length = nn.Parameter(torch.tensor(0.1).log()), nn.Parameter(torch.tensor(length).log())

    def bias(self, position_ids_BT: Tensor, num_keys: int) -> Tensor:
        key_S = torch.arange(num_keys, device=position_ids_BT.device)
        distance_BTS = (position_ids_BT.unsqueeze(-1) - key_S).abs()
        c, longest_BT = self.log_c.exp(), torch.maximum(self.log_length.exp(), position_ids_BT)
        share_BTS = torch.log1p(c * distance_BTS) / torch.log1p(c * longest_BT).unsqueeze(-1)
        return self.second(self.first(share_BTS.unsqueeze(-1)).relu()).permute(0, 3, 1, 2)
