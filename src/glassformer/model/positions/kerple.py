"""KERPLE: scores fall with the logarithm of the distance, at trained rates."""

from __future__ import annotations

from typing import ClassVar, final

import torch
from torch import Tensor, nn

from glassformer.model.dims import Dims
from glassformer.model.slots import POSITIONS, Positions, PositionsConfig


@POSITIONS.variant("kerple")
@final
class KerpleConfig(PositionsConfig):
    """-a log(1 + b d) on scores, with trained a, b > 0 for each head and d the distance (KERPLE, Chi et al. 2022).

    For texts longer than those it was trained on. Both numbers start at 1 and are powers of e of what is trained, where the
    paper clips them. Cost: two parameters a head, a logarithm for each pair; a trained bias leaves the fused kernel.
    """

    applies_to: ClassVar[str] = "bias"

    def build(self, dims: Dims) -> Kerple:
        return Kerple(dims.heads)


@final
class Kerple(Positions):
    def __init__(self, heads: int) -> None:
        super().__init__()
        self.log_a_H, self.log_b_H = nn.Parameter(torch.zeros(heads)), nn.Parameter(torch.zeros(heads))

    def bias(self, position_ids_BT: Tensor, num_keys: int) -> Tensor:
        key_S = torch.arange(num_keys, device=position_ids_BT.device)
        distance_B1TS = (position_ids_BT[:, None, :, None] - key_S).abs()
        a_H11, b_H11 = (log_H.exp()[:, None, None] for log_H in (self.log_a_H, self.log_b_H))
        return -a_H11 * torch.log1p(b_H11 * distance_B1TS)
