"""Scores as they are."""

from __future__ import annotations

from typing import final

from glassformer.model.dims import Dims
from glassformer.model.slots import SCORE_MAPS, ScoreConfig, ScoreMap


@SCORE_MAPS.variant("none")
@final
class NoneConfig(ScoreConfig):
    """Scores as they are (Vaswani et al. 2017)."""

    def build(self, dims: Dims) -> ScoreMap:
        return ScoreMap()
