"""Queries and keys as they are."""

from __future__ import annotations

from typing import final

from glassformer.model.dims import Dims
from glassformer.model.slots import QUERY_KEY_MAPS, QueryKeyConfig, QueryKeyMap


@QUERY_KEY_MAPS.variant("none")
@final
class NoneConfig(QueryKeyConfig):
    """Queries and keys as they are (Vaswani et al. 2017)."""

    def build(self, dims: Dims) -> QueryKeyMap:
        return QueryKeyMap()
