"""Weights by the number of inputs and outputs: vectors keep their size on the way forward, gradients on the way back."""

from __future__ import annotations

import math
from typing import final

from torch import Tensor

from glassformer.model.dims import Dims
from glassformer.model.initialisation import InitialWeights
from glassformer.model.slots import INITS, InitConfig


@INITS.variant("xavier")
@final
class XavierConfig(InitConfig):
    """Standard deviation sqrt(2 / (inputs + outputs)) of every matrix, embeddings too (Glorot and Bengio 2010)."""

    def std_of(self, weights: InitialWeights, dims: Dims) -> float:
        weight = weights.module.weight
        assert isinstance(weight, Tensor)
        return math.sqrt(2.0 / sum(weight.shape[:2]))
