"""Normal weights, with smaller ones, or none, where a part writes into the residual stream."""

from __future__ import annotations

import math
from typing import Any, ClassVar, Literal, final

from pydantic import Field

from glassformer.model.dims import Dims
from glassformer.model.initialisation import InitialWeights
from glassformer.model.slots import INITS, InitConfig


@INITS.variant("normal")
@final
class NormalConfig(InitConfig):
    """Standard deviation ``std``; where a part writes into the residual stream, less by sqrt(2 layers) (GPT-2), or zero."""

    examples: ClassVar[tuple[dict[str, Any], ...]] = ({}, {"std": 0.1, "residual": "layer"}, {"residual": "zero"})

    std: float = Field(default=0.02, gt=0)
    residual: Literal["depth", "layer", "plain", "zero"] = "depth"
    """depth: over sqrt(2 layers); layer: over sqrt(2 (l + 1)) in layer l (depth-scaled, Zhang et al. 2019); plain: ``std``;
    zero: each part starts by adding nothing (zero-init, Zhang et al. 2019, Fixup)."""

    @property
    def starts_silent(self) -> bool:
        return self.residual == "zero"

    def std_of(self, weights: InitialWeights, dims: Dims) -> float:
        if weights.role != "residual" or self.residual == "plain":
            return self.std
        if self.residual == "zero":
            return 0.0
        depth = dims.layers if self.residual == "depth" else (weights.layer or 0) + 1
        return self.std / math.sqrt(2 * max(1, depth))
