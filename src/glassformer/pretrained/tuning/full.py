"""Full tuning: every weight of the encoder is trained."""

from __future__ import annotations

from typing import ClassVar, final

import torch
from torch import nn

from glassformer.pretrained.tuning.base import TUNINGS, EncoderSizes, Reader, TuningConfig


@TUNINGS.variant("full")
@final
class FullConfig(TuningConfig):
    """Every weight of the encoder is trained, and the head."""

    frozen: ClassVar[bool] = False

    def trainable(self, sizes: EncoderSizes) -> int:
        return sizes.parameters

    def apply(self, encoder: nn.Module, sizes: EncoderSizes, generator: torch.Generator) -> Reader:
        return Reader()
