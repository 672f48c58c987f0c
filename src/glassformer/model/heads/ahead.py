"""The tied head that also learns to predict tokens further ahead."""

from __future__ import annotations

from typing import Any, ClassVar, final

import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn

from glassformer.model.attention_context import AttentionContext
from glassformer.model.dims import Dims, matmul_flops
from glassformer.model.losses import IGNORED, summed_cross_entropy
from glassformer.model.slots import HEADS, LinearHead, ProductHeadConfig


@HEADS.variant("ahead")
@final
class AheadConfig(ProductHeadConfig):
    """The tied head; in training, x + W_j x also predict the 2nd, 3rd, ... token after each (Gloeckle et al. 2024).

    Their cross-entropy is the own loss ``ahead``: a mean over the ``tokens`` - 1 distances, trained with ``weight``, logged
    apart and in no metric. The paper gives each distance a layer, here it is one matrix; all share the embedding's. Evaluation
    and generation are the tied head's. Cost: in training one matrix and one table of scores for each distance.
    """

    shares_embedding: ClassVar[bool] = True
    own_losses: ClassVar[tuple[str, ...]] = ("ahead",)
    examples: ClassVar[tuple[dict[str, Any], ...]] = ({"tokens": 3},)

    tokens: int = Field(default=4, ge=2, le=64)
    """How many tokens each position predicts, the next one among them."""
    weight: float = Field(default=1.0, gt=0)

    def incompatibility(self, dims: Dims) -> str | None:
        if not dims.causal:
            return "model.head=ahead has nothing to predict with model.causal=false: an encoder sees what comes; choose tied."
        if self.tokens >= dims.context:
            return f"model.head.tokens={self.tokens} must be less than model.context={dims.context}."
        return super().incompatibility(dims)

    def build(self, dims: Dims, embedding: nn.Embedding) -> Ahead:
        return Ahead(dims, embedding, self)

    def backward_flops(self, dims: Dims, batch: int, length: int) -> int:
        rows = batch * sum(length - distance for distance in range(2, self.tokens + 1))
        only_in_training = matmul_flops(rows, dims.width, dims.width + dims.num_outputs)
        return super().backward_flops(dims, batch, length) + 3 * only_in_training


@final
class Ahead(LinearHead):
    def __init__(self, dims: Dims, embedding: nn.Embedding, config: AheadConfig) -> None:
        super().__init__(embedding.weight)
        self.share = config.weight / (config.tokens - 1)
        self.further = nn.ModuleList(nn.Linear(dims.width, dims.width, bias=False) for _ in range(config.tokens - 1))

    def add_losses(self, x_BTD: Tensor, ids_BT: Tensor, attention_context: AttentionContext) -> None:
        targets_BT = ids_BT
        if attention_context.key_padding_mask_BS is not None:
            targets_BT = ids_BT.masked_fill(attention_context.key_padding_mask_BS, IGNORED)
        for distance, further in enumerate(self.further, start=2):
            seen_BTD = x_BTD[:, :-distance]
            scores_BTV = F.linear(seen_BTD + further(seen_BTD), self.weight)
            loss = summed_cross_entropy(scores_BTV, targets_BT[:, distance:])
            attention_context.add_loss("ahead", loss, weight=self.share)
