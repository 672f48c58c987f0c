"""Softmax with a sink: a query may take less than a whole of the values."""

from __future__ import annotations

from typing import Any, ClassVar, final

import torch
from torch import Tensor, nn

from glassformer.model.dims import Dims
from glassformer.model.slots import NORMALISERS, Normaliser, NormaliserConfig


@NORMALISERS.variant("sink")
@final
class SinkConfig(NormaliserConfig):
    """exp(s) / (exp(b) + sum of exp(s)): b per head takes what no value should (off by one, Miller 2023; gpt-oss 2025).

    ``learned: false`` leaves b at 0, which is Miller's softmax with one more in the denominator. Cost: one number per head.
    """

    examples: ClassVar[tuple[dict[str, Any], ...]] = ({}, {"learned": False})

    learned: bool = True
    """Whether b is trained; it starts at 0."""

    def build(self, dims: Dims) -> Sink:
        return Sink(dims, learned=self.learned)


@final
class Sink(Normaliser):
    averages = False

    def __init__(self, dims: Dims, *, learned: bool) -> None:
        super().__init__()
        self.sink_H = nn.Parameter(torch.empty(dims.heads)) if learned else None

    def init_weights(self, generator: torch.Generator) -> None:
        if self.sink_H is not None:
            nn.init.zeros_(self.sink_H)

    def forward(self, scores_BHTS: Tensor, mask: Tensor | None) -> Tensor:
        if mask is not None:
            scores_BHTS = scores_BHTS.masked_fill(~mask, -torch.inf)
        sink = scores_BHTS.new_zeros(()) if self.sink_H is None else self.sink_H.to(scores_BHTS.dtype)[:, None, None]
        sink_BHT1 = sink.expand(*scores_BHTS.shape[:-1], 1)
        return torch.softmax(torch.cat([scores_BHTS, sink_BHT1], dim=-1), dim=-1)[..., :-1]
