"""QK-norm: queries and keys divided by their root mean square."""

from __future__ import annotations

import math
from typing import Any, ClassVar, Literal, final

from pydantic import Field
from torch import Tensor

from glassformer.model.dims import Dims
from glassformer.model.norms.rms import RMSNorm
from glassformer.model.slots import QUERY_KEY_MAPS, QueryKeyConfig, QueryKeyMap


@QUERY_KEY_MAPS.variant("rms")
@final
class RMSConfig(QueryKeyConfig):
    """QK-norm: q / rms(q) and k / rms(k), times learned weights, so no score can grow large (Dehghani et al. 2023; Qwen3).

    ``over: head`` takes the mean square of each head, with one weight per number of a head, shared by the heads (Qwen3);
    ``over: width`` that of all heads together (OLMo 2). Cost: some operations per query and key, no product.
    """

    examples: ClassVar[tuple[dict[str, Any], ...]] = ({}, {"learned": False, "gain": 1.2}, {"over": "width"})

    over: Literal["head", "width"] = "head"
    learned: bool = True
    """Whether a learned weight follows."""
    gain: float = Field(default=1.0, gt=0)
    """What queries and keys are multiplied by, both (nanochat: 1.2)."""
    eps: float = Field(default=1e-6, gt=0)

    def build(self, dims: Dims) -> RMSQueryKeys:
        return RMSQueryKeys(dims, whole=self.over == "width", learned=self.learned, gain=self.gain, eps=self.eps)


@final
class RMSQueryKeys(QueryKeyMap):
    def __init__(self, dims: Dims, *, whole: bool, learned: bool, gain: float, eps: float) -> None:
        super().__init__()
        self.whole = whole
        self.scale = None if gain == 1.0 else gain**2 / math.sqrt(dims.head_width)
        of_query, of_key = (heads * dims.head_width if whole else dims.head_width for heads in (dims.heads, dims.kv_heads))
        self.query_norm = RMSNorm(of_query, eps=eps, elementwise_affine=learned)
        self.key_norm = RMSNorm(of_key, eps=eps, elementwise_affine=learned)

    def forward(self, q_BHTE: Tensor, k_BGTE: Tensor) -> tuple[Tensor, Tensor]:
        return self._normed(self.query_norm, q_BHTE), self._normed(self.key_norm, k_BGTE)

    def _normed(self, norm: RMSNorm, x_BHTE: Tensor) -> Tensor:
        if not self.whole:
            normed_BHTE: Tensor = norm(x_BHTE)
            return normed_BHTE
        x_BTD: Tensor = norm(x_BHTE.transpose(1, 2).flatten(-2))
        return x_BTD.unflatten(-1, (x_BHTE.shape[1], -1)).transpose(1, 2)
