"""Layer normalisation."""

from __future__ import annotations

from typing import final

from pydantic import Field
from torch import Tensor, nn

from glassformer.model import kernels
from glassformer.model.dims import Dims
from glassformer.model.slots import NORMS, NormConfig

if kernels.AVAILABLE:
    from glassformer.model.kernels.norm import norm


@NORMS.variant("layer")
@final
class LayerConfig(NormConfig):
    """Mean zero, variance one, then a learned scale (and shift where the model has biases) (Ba et al. 2016)."""

    eps: float = Field(default=1e-5, gt=0)

    def build(self, dims: Dims) -> LayerNorm:
        return LayerNorm(dims.width, eps=self.eps, bias=dims.bias)

    def parameters(self, dims: Dims) -> int:
        return dims.width * (2 if dims.bias else 1)


@final
class LayerNorm(nn.LayerNorm):
    """Torch's, with a kernel of ours where it is faster."""

    def forward(self, x_BTD: Tensor) -> Tensor:
        if kernels.usable(x_BTD):
            return norm(x_BTD, self.weight, self.bias, self.eps, centred=True)
        return super().forward(x_BTD)
