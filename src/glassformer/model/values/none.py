"""Values as they are."""

from __future__ import annotations

from typing import final

from glassformer.model.dims import Dims
from glassformer.model.slots import VALUE_MAPS, ValueConfig, ValueMap


@VALUE_MAPS.variant("none")
@final
class NoneConfig(ValueConfig):
    """Values as they are (Vaswani et al. 2017)."""

    def build(self, dims: Dims) -> ValueMap:
        return ValueMap()
