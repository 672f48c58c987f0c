"""Sigmoid attention: each key is judged alone."""

from __future__ import annotations

from typing import final

import torch
from torch import Tensor

from glassformer.model.attention import visible_keys
from glassformer.model.dims import Dims
from glassformer.model.slots import NORMALISERS, Normaliser, NormaliserConfig


@NORMALISERS.variant("sigmoid")
@final
class SigmoidConfig(NormaliserConfig):
    """sigmoid(s - log n), n the number of keys that the query sees; no key competes with another (Ramapuram et al. 2024).

    The paper takes one n, the length of the text; here each query has its own, so that a text may be read token by token.
    Cost: as softmax.
    """

    def build(self, dims: Dims) -> Sigmoid:
        return Sigmoid()


@final
class Sigmoid(Normaliser):
    averages = False

    def forward(self, scores_BHTS: Tensor, mask: Tensor | None) -> Tensor:
        pattern_BHTS = torch.sigmoid(scores_BHTS - visible_keys(scores_BHTS, mask).log())
        return pattern_BHTS if mask is None else pattern_BHTS.masked_fill(~mask, 0.0)
