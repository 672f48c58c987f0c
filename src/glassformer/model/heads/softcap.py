"""The head whose scores are soft-capped."""

from __future__ import annotations

from typing import Any, ClassVar, final

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn

from glassformer.model.dims import Dims
from glassformer.model.slots import HEADS, ProductHeadConfig


@HEADS.variant("softcap")
@final
class SoftcapConfig(ProductHeadConfig):
    """cap tanh(s / cap): no score of a token leaves (-cap, cap) (Gemma 2, 2024, with 30; nanochat, untied, with 15).

    Cost: a tanh per score of the vocabulary.
    """

    examples: ClassVar[tuple[dict[str, Any], ...]] = ({}, {"cap": 2.0, "tied": False})

    cap: float = Field(default=30.0, gt=0)
    tied: bool = True
    """Whether the matrix is the embedding's, or one of its own."""

    @property
    def reads_embedding(self) -> bool:
        return self.tied

    def build(self, dims: Dims, embedding: nn.Embedding) -> Softcap:
        return Softcap(embedding.weight if self.tied else nn.Parameter(torch.empty(dims.num_outputs, dims.width)), self)


@final
class Softcap(nn.Module):
    def __init__(self, weight_VD: Tensor, config: SoftcapConfig) -> None:
        super().__init__()
        self.weight, self.cap, self.tied = weight_VD, config.cap, config.tied

    def init_weights(self, generator: torch.Generator) -> None:
        if not self.tied:
            nn.init.normal_(self.weight, std=0.02, generator=generator)

    def forward(self, x_BTD: Tensor) -> Tensor:
        return self.cap * torch.tanh(F.linear(x_BTD, self.weight) / self.cap)
