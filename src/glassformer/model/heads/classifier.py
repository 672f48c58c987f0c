"""The head that reads a whole text: its vectors pooled without padding, then a small network, then one score per label."""

from __future__ import annotations

import itertools
from typing import Annotated, Any, ClassVar, Literal, final

import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn

from glassformer.model.dims import Dims, matmul_flops
from glassformer.model.dropout import Dropout
from glassformer.model.initialisation import start
from glassformer.model.slots import HEADS, HeadConfig

PoolKind = Literal["mean", "first"]


def pool(x_BTD: Tensor, key_padding_mask_BS: Tensor | None, kind: PoolKind) -> Tensor:
    """One vector per text [B, D]: the mean of the vectors where something stands, or the first of them."""
    if kind == "first":
        return first_seen(x_BTD, key_padding_mask_BS)
    if key_padding_mask_BS is None:
        return x_BTD.mean(dim=1)
    seen_BT1 = (~key_padding_mask_BS).unsqueeze(-1).to(x_BTD.dtype)
    return (x_BTD * seen_BT1).sum(dim=1) / seen_BT1.sum(dim=1).clamp(min=1.0)


def first_seen(x_BTD: Tensor, key_padding_mask_BS: Tensor | None) -> Tensor:
    """The first vector where something stands, [B, D]."""
    if key_padding_mask_BS is None:
        return x_BTD[:, 0]
    at_B11 = (~key_padding_mask_BS).long().argmax(dim=1).view(-1, 1, 1)
    return x_BTD.gather(1, at_B11.expand(-1, 1, x_BTD.shape[-1])).squeeze(1)


@HEADS.variant("classifier")
@final
class ClassifierConfig(HeadConfig):
    """Label logits of a whole text: the mean (or the first) of its vectors, through hidden ReLU layers."""

    pools: ClassVar[bool] = True
    examples: ClassVar[tuple[dict[str, Any], ...]] = ({}, {"pool": "first", "hidden": []})

    pool: PoolKind = "mean"
    hidden: list[Annotated[int, Field(ge=1, le=1 << 16)]] = Field(default=[100], max_length=8)

    def build(self, dims: Dims, embedding: nn.Embedding) -> Classifier:
        return Classifier(dims, self)

    def incompatibility(self, dims: Dims) -> str | None:
        if dims.causal:
            return "model.head=classifier reads a whole text, so its tokens should see each other: set model.causal: false."
        return None

    def sizes(self, dims: Dims) -> list[int]:
        """The widths from the pooled vector to the scores."""
        return [dims.width, *self.hidden, dims.num_outputs]

    def flops(self, dims: Dims, batch: int, length: int) -> int:
        return sum(matmul_flops(batch, inputs, outputs) for inputs, outputs in itertools.pairwise(self.sizes(dims)))


@final
class Classifier(nn.Module):
    """Vectors [B, T, D] and their padding mask -> scores [B, C]."""

    def __init__(self, dims: Dims, config: ClassifierConfig) -> None:
        super().__init__()
        self.pool_kind: PoolKind = config.pool
        self.dropout = Dropout(dims.dropout)
        pairs = enumerate(itertools.pairwise(config.sizes(dims)))
        self.layers = nn.ModuleList(start(nn.Linear(*pair), f"layers.{number}") for number, pair in pairs)

    def forward(self, x_BTD: Tensor, key_padding_mask_BS: Tensor | None = None) -> Tensor:
        x_BD = self.dropout(pool(x_BTD, key_padding_mask_BS, self.pool_kind), None)
        *inner, last = self.layers
        for layer in inner:
            x_BD = F.relu(layer(x_BD))
        return last(x_BD)
