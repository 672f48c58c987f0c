"""The head that shares its matrix with the embedding."""

from __future__ import annotations

import math
from typing import Any, ClassVar, Literal, final

from torch import Tensor, nn

from glassformer.model.dims import Dims
from glassformer.model.slots import HEADS, LinearHead, ProductHeadConfig


@HEADS.variant("tied")
@final
class TiedConfig(ProductHeadConfig):
    """Scores by the embedding's own matrix, times ``scale``: no further parameters (Press and Wolf 2017)."""

    shares_embedding: ClassVar[bool] = True
    examples: ClassVar[tuple[dict[str, Any], ...]] = ({}, {"scale": "inverse-sqrt"})

    scale: Literal["one", "inverse-sqrt"] = "one"
    """inverse-sqrt: the vectors are divided by the root of the width first (T5)."""

    def build(self, dims: Dims, embedding: nn.Embedding) -> Tied:
        return Tied(embedding) if self.scale == "one" else ScaledTied(embedding, 1.0 / math.sqrt(dims.width))


class Tied(LinearHead):
    def __init__(self, embedding: nn.Embedding) -> None:
        super().__init__(embedding.weight)


@final
class ScaledTied(Tied):
    def __init__(self, embedding: nn.Embedding, scale: float) -> None:
        super().__init__(embedding)
        self.scale = scale

    def forward(self, x_BTD: Tensor) -> Tensor:
        return super().forward(self.scale * x_BTD)
