"""The tied head with a bias that starts at how frequent each token is."""

from __future__ import annotations

from typing import ClassVar, final

import torch
from torch import Tensor, nn

from glassformer.model.dims import Dims
from glassformer.model.slots import HEADS, LinearHead, ProductHeadConfig


@HEADS.variant("tied-frequency")
@final
class FrequencyConfig(ProductHeadConfig):
    """The tied head plus a bias that starts at the log frequencies of the training text: step 0 is the unigram model."""

    shares_embedding: ClassVar[bool] = True

    def build(self, dims: Dims, embedding: nn.Embedding) -> Frequency:
        return Frequency(dims, embedding)


@final
class Frequency(LinearHead):
    def __init__(self, dims: Dims, embedding: nn.Embedding) -> None:
        super().__init__(embedding.weight, nn.Parameter(torch.zeros(dims.vocabulary)))

    @torch.no_grad()
    def start_from_counts(self, counts_V: Tensor) -> None:
        """Log frequencies with one more of each token, so that an unseen one is rare and not impossible."""
        smoothed_V = counts_V.double() + 1.0
        assert self.bias is not None
        self.bias.copy_((smoothed_V / smoothed_V.sum()).log())
