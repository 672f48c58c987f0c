"""Contrastive: all weights, by pairs of texts, for few examples of each label."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, final

import torch
from pydantic import Field
from torch import nn

from glassformer.pretrained.tuning.base import TUNINGS, EncoderSizes, Reader, TuningConfig


@TUNINGS.variant("contrastive")
@final
class ContrastiveConfig(TuningConfig):
    """Every weight, by pairs of texts: their cosine should be 1 if they have one label, else 0 (SetFit, Tunstall et al. 2022).

    The head learns the labels beside it, from the vectors as they are, with a rate of its own.
    """

    frozen: ClassVar[bool] = False
    pairs: ClassVar[bool] = True

    head_rate: float = Field(default=100.0, gt=0)
    """Times ``training.lr``: the head begins from nothing, the encoder from what it knows."""

    def trainable(self, sizes: EncoderSizes) -> int:
        return sizes.parameters

    def lr_factors(self) -> Mapping[str, float]:
        return {"head.": self.head_rate}

    def apply(self, encoder: nn.Module, sizes: EncoderSizes, generator: torch.Generator) -> Reader:
        return Reader()
