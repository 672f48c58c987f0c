"""Query-key normalisation: scores are cosines times a factor."""

from __future__ import annotations

import math
from typing import Any, ClassVar, final

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from glassformer.model.dims import Dims
from glassformer.model.slots import QUERY_KEY_MAPS, QueryKeyConfig, QueryKeyMap


@QUERY_KEY_MAPS.variant("l2")
@final
class L2Config(QueryKeyConfig):
    """Scores g cos(q, k): queries and keys of length one, and a factor g per head, learned (QKNorm, Henry et al. 2020).

    g starts at log2(T^2 - T), T the context, as in the paper; it stands in for 1/sqrt(head width), unless ``scale`` is
    given, which multiplies it. Cost: some operations per query and key, no product.
    """

    examples: ClassVar[tuple[dict[str, Any], ...]] = ({}, {"learned": False})

    learned: bool = True
    """Whether g is trained."""

    def build(self, dims: Dims) -> L2QueryKeys:
        return L2QueryKeys(dims, learned=self.learned)


@final
class L2QueryKeys(QueryKeyMap):
    scale: float | None = 1.0

    def __init__(self, dims: Dims, *, learned: bool) -> None:
        super().__init__()
        self.start = math.log2(max(2, dims.context * (dims.context - 1)))
        if learned:
            self.factor_H: Tensor = nn.Parameter(torch.empty(dims.heads))
        else:  # saved, since the same weights may be read with a longer context
            self.register_buffer("factor_H", torch.full((dims.heads,), self.start))

    def init_weights(self, generator: torch.Generator) -> None:
        nn.init.constant_(self.factor_H, self.start)

    def forward(self, q_BHTE: Tensor, k_BGTE: Tensor) -> tuple[Tensor, Tensor]:
        q_BHTE, k_BGTE = (F.normalize(x, dim=-1).to(x.dtype) for x in (q_BHTE, k_BGTE))
        return (q_BHTE * self.factor_H[:, None, None]).to(q_BHTE.dtype), k_BGTE
