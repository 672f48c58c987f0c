"""The head alone: the encoder stays as it is."""

from __future__ import annotations

from typing import final

import torch
from torch import nn

from glassformer.pretrained.tuning.base import TUNINGS, EncoderSizes, Reader, TuningConfig


@TUNINGS.variant("head")
@final
class HeadOnlyConfig(TuningConfig):
    """Only the head is trained: 2 d + 2 numbers for two labels."""

    cached: bool = False
    """The encoder reads each text once, without dropout; its vectors are stored in the cache folder and trained on from there,
    so that an epoch takes seconds."""

    def stores_vectors(self) -> bool:
        return self.cached

    def trainable(self, sizes: EncoderSizes) -> int:
        return 0

    def apply(self, encoder: nn.Module, sizes: EncoderSizes, generator: torch.Generator) -> Reader:
        encoder.requires_grad_(False)
        return Reader()
