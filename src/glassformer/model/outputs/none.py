"""Outputs as they are."""

from __future__ import annotations

from typing import final

from glassformer.model.dims import Dims
from glassformer.model.slots import OUTPUTS, HeadOutput, OutputConfig


@OUTPUTS.variant("none")
@final
class NoneConfig(OutputConfig):
    """The heads' outputs as they are (Vaswani et al. 2017)."""

    def build(self, dims: Dims) -> HeadOutput:
        return HeadOutput()
