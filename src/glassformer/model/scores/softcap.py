"""Soft-capped scores: no score leaves (-cap, cap)."""

from __future__ import annotations

from typing import Any, ClassVar, final

import torch
from pydantic import Field
from torch import Tensor

from glassformer.model.dims import Dims
from glassformer.model.slots import SCORE_MAPS, ScoreConfig, ScoreMap


@SCORE_MAPS.variant("softcap")
@final
class SoftcapConfig(ScoreConfig):
    """cap tanh(s / cap): scores stay between -cap and cap (Gemma 2, 2024).

    Cost: a tanh per score. torch's scaled_dot_product_attention has no such step, so the scores are formed.
    """

    examples: ClassVar[tuple[dict[str, Any], ...]] = ({}, {"cap": 2.0})

    cap: float = Field(default=50.0, gt=0)

    def build(self, dims: Dims) -> Softcap:
        return Softcap(self.cap)


@final
class Softcap(ScoreMap):
    def __init__(self, cap: float) -> None:
        super().__init__()
        self.cap = cap

    def forward(self, scores_BHTS: Tensor) -> Tensor:
        return self.cap * torch.tanh(scores_BHTS / self.cap)
