"""Layer normalisation."""

from __future__ import annotations

from typing import final

from pydantic import Field
from torch import nn

from glassformer.model.dims import Dims
from glassformer.model.slots import NORMS, NormConfig


@NORMS.variant("layer")
@final
class LayerConfig(NormConfig):
    """Mean zero, variance one, then a learned scale (and shift where the model has biases) (Ba et al. 2016)."""

    eps: float = Field(default=1e-5, gt=0)

    def build(self, dims: Dims) -> nn.Module:
        return nn.LayerNorm(dims.width, eps=self.eps, bias=dims.bias)

    def parameters(self, dims: Dims) -> int:
        return dims.width * (2 if dims.bias else 1)
