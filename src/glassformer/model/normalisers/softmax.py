"""Softmax: exponentials over their sum."""

from __future__ import annotations

from typing import final

from glassformer.model.dims import Dims
from glassformer.model.slots import NORMALISERS, Normaliser, NormaliserConfig


@NORMALISERS.variant("softmax")
@final
class SoftmaxConfig(NormaliserConfig):
    """exp(s) over the sum of the exp(s) of all keys that the query sees (Vaswani et al. 2017)."""

    def build(self, dims: Dims) -> Normaliser:
        return Normaliser()
