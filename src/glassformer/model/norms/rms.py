"""Root-mean-square normalisation."""

from __future__ import annotations

from typing import Any, ClassVar, Literal, final

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn

from glassformer.model.dims import Dims
from glassformer.model.slots import NORMS, NormConfig


@NORMS.variant("rms")
@final
class RMSConfig(NormConfig):
    """Divided by the root of the mean square, then a learned scale (Zhang and Sennrich 2019)."""

    examples: ClassVar[tuple[dict[str, Any], ...]] = ({}, {"scale": "offset"}, {"scale": "none"})

    eps: float = Field(default=1e-6, gt=0)
    scale: Literal["weight", "offset", "none"] = "weight"
    """weight: times w, which starts at 1; offset: times 1 + w, which starts at 0 (Gemma), so that weight decay pulls the scale
    to 1; none: no scale (nanochat)."""

    def build(self, dims: Dims) -> nn.Module:
        return RMSNorm(dims.width, eps=self.eps) if self.scale == "weight" else OwnScaleRMSNorm(dims, self)


@final
class RMSNorm(nn.RMSNorm):
    """Torch's, with the result in the precision of ``x_BTD``: autocast would give float32 and double the stream's bytes.
    Computed in the weight's precision: torch fuses it only where both are the same."""

    def forward(self, x_BTD: Tensor) -> Tensor:
        own: Tensor | None = self.weight  # None: elementwise_affine=False
        return super().forward(x_BTD if own is None else x_BTD.to(own.dtype)).to(x_BTD.dtype)


@final
class OwnScaleRMSNorm(nn.Module):
    """Times 1 + weight, or without a weight."""

    def __init__(self, dims: Dims, config: RMSConfig) -> None:
        super().__init__()
        self.width, self.eps = dims.width, config.eps
        self.weight = nn.Parameter(torch.zeros(dims.width)) if config.scale == "offset" else None

    def forward(self, x_BTD: Tensor) -> Tensor:
        if self.weight is None:
            return F.rms_norm(x_BTD, (self.width,), eps=self.eps)
        return F.rms_norm(x_BTD.to(self.weight.dtype), (self.width,), 1.0 + self.weight, self.eps).to(x_BTD.dtype)
