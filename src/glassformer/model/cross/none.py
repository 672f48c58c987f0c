"""No cross-attention: the ablation."""

from __future__ import annotations

from typing import final

from glassformer.model.dims import Dims
from glassformer.model.slots import CROSS, CrossConfig


@CROSS.variant("none")
@final
class NoCrossConfig(CrossConfig):
    """The decoder never sees the source: a language model of the targets. The checks report that it ignores its source."""

    def build(self, dims: Dims) -> None:
        return None
