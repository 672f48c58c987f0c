"""Root-mean-square normalisation."""

from __future__ import annotations

from typing import final

from pydantic import Field
from torch import Tensor, nn

from glassformer.model.dims import Dims
from glassformer.model.slots import NORMS, NormConfig


@NORMS.variant("rms")
@final
class RMSConfig(NormConfig):
    """Divided by the root of the mean square, then a learned scale (Zhang and Sennrich 2019)."""

    eps: float = Field(default=1e-6, gt=0)

    def build(self, dims: Dims) -> RMSNorm:
        return RMSNorm(dims.width, eps=self.eps)

    def parameters(self, dims: Dims) -> int:
        return dims.width


@final
class RMSNorm(nn.RMSNorm):
    """Torch's, with the result in the precision of ``x_BTD``: autocast would give float32 and double the stream's bytes."""

    def forward(self, x_BTD: Tensor) -> Tensor:
        return super().forward(x_BTD).to(x_BTD.dtype)
