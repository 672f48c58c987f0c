"""Layer normalisation."""

from __future__ import annotations

from typing import final

from pydantic import Field
from torch import Tensor, nn

from glassformer.model.dims import Dims
from glassformer.model.slots import NORMS, NormConfig


@NORMS.variant("layer")
@final
class LayerConfig(NormConfig):
    """Mean zero, variance one, then a learned scale (and shift where the model has biases) (Ba et al. 2016)."""

    eps: float = Field(default=1e-5, gt=0)

    def build(self, dims: Dims) -> LayerNorm:
        return LayerNorm(dims.width, eps=self.eps, bias=dims.bias)


@final
class LayerNorm(nn.LayerNorm):
    """Torch's, with the result in the precision of ``x_BTD``: autocast would give float32 and double the stream's bytes."""

    def forward(self, x_BTD: Tensor) -> Tensor:
        return super().forward(x_BTD).to(x_BTD.dtype)
