"""Classification heads of pretrained encoders: a linear map of pooled vectors, or the head of the transformers class.

``own`` is BERT's pooler and linear map, or the two layers of RoBERTa, ELECTRA and DistilBERT, with transformers' names: a
folder of it is opened by AutoModelForSequenceClassification. ``mean`` and ``first`` are one linear map and work for every
encoder.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, final

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from glassformer.foundation.errors import ConfigError
from glassformer.model.heads.classifier import first_seen, pool

PoolChoice = Literal["mean", "first", "own"]
ROBERTA_LIKE = ("roberta", "xlm-roberta", "camembert")
TWO_LAYERS = (*ROBERTA_LIKE, "electra", "distilbert")
"""Encoders whose own head is two new layers on the first vector."""
_ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {"electra": F.gelu, "distilbert": F.relu}


class LabelHead(nn.Module):
    """Pooling, dropout, a linear map. ``virtual``: vectors before the text that are not pooled."""

    def __init__(self, width: int, outputs: int, *, pool: Literal["mean", "first"], dropout: float, virtual: int = 0) -> None:
        super().__init__()
        self.pool, self.drop, self.virtual = pool, dropout, virtual
        self.classifier = nn.Linear(width, outputs)

    def pooled(self, x_BTD: Tensor, key_padding_mask_BS: Tensor | None) -> Tensor:
        return pool(x_BTD[:, self.virtual :], key_padding_mask_BS, self.pool)

    def forward(self, x_BTD: Tensor, key_padding_mask_BS: Tensor | None = None) -> Tensor:
        return self.scored(self.pooled(x_BTD, key_padding_mask_BS))

    def scored(self, pooled_BD: Tensor) -> Tensor:
        """The scores of pooled vectors."""
        return self.classifier(F.dropout(pooled_BD, self.drop, self.training))

    def init_weights(self, generator: torch.Generator) -> None:
        """transformers' initialisation: small weights, zero bias."""
        nn.init.normal_(self.classifier.weight, std=0.02, generator=generator)
        nn.init.zeros_(self.classifier.bias)


def first_of_all(x_BTD: Tensor, key_padding_mask_BS: Tensor | None) -> Tensor:
    """The first vector that is not padding; that of the prompt if there is one, as in peft."""
    prompted = key_padding_mask_BS is not None and x_BTD.shape[1] > key_padding_mask_BS.shape[1]
    return first_seen(x_BTD, None if prompted else key_padding_mask_BS)


@final
class BertHead(LabelHead):
    """The encoder's pooler (pretrained; frozen where the encoder is), dropout, one linear map."""

    def __init__(self, width: int, outputs: int, pooler: nn.Module, *, dropout: float) -> None:
        super().__init__(width, outputs, pool="first", dropout=dropout)
        self.pooler = pooler

    def pooled(self, x_BTD: Tensor, key_padding_mask_BS: Tensor | None) -> Tensor:
        return self.pooler(first_of_all(x_BTD, key_padding_mask_BS).unsqueeze(1))


@final
class TwoLayerHead(nn.Module):
    """Dropout, a layer with tanh (ELECTRA: GELU; DistilBERT: ReLU, and no dropout before it), dropout, one linear map, on the
    first vector; both layers are new and trained."""

    def __init__(self, width: int, outputs: int, model_type: str, *, dropout: float) -> None:
        super().__init__()
        self.drop, self.drop_first = dropout, 0.0 if model_type == "distilbert" else dropout
        self.activation = _ACTIVATIONS.get(model_type, torch.tanh)
        self.dense, self.out_proj = nn.Linear(width, width), nn.Linear(width, outputs)

    def pooled(self, x_BTD: Tensor, key_padding_mask_BS: Tensor | None) -> Tensor:
        x_BD = F.dropout(first_of_all(x_BTD, key_padding_mask_BS), self.drop_first, self.training)
        return self.activation(self.dense(x_BD))

    def forward(self, x_BTD: Tensor, key_padding_mask_BS: Tensor | None = None) -> Tensor:
        return self.out_proj(F.dropout(self.pooled(x_BTD, key_padding_mask_BS), self.drop, self.training))

    def init_weights(self, generator: torch.Generator) -> None:
        for layer in (self.dense, self.out_proj):
            nn.init.normal_(layer.weight, std=0.02, generator=generator)
            nn.init.zeros_(layer.bias)


def build_head(
    pool: PoolChoice, model_type: str, pooler: nn.Module | None, *, width: int, outputs: int, dropout: float, virtual: int
) -> nn.Module:
    """The head that ``model.pool`` asks for."""
    if pool != "own":
        return LabelHead(width, outputs, pool=pool, dropout=dropout, virtual=virtual)
    if model_type == "bert" and pooler is not None:
        return BertHead(width, outputs, pooler, dropout=dropout)
    if model_type in TWO_LAYERS:
        return TwoLayerHead(width, outputs, model_type, dropout=dropout)
    known = "it is known for BERT, RoBERTa, ELECTRA and DistilBERT only"
    reason = "its folder has no weights of a pooler" if model_type == "bert" else known
    raise ConfigError(
        f"model.pool=own is not available for this {model_type} model: {reason}; choose model.pool: mean or first.",
        reason="no-own-head",
    )


def has_own_head(model_type: str) -> bool:
    """Whether ``own`` is known for this kind of encoder."""
    return model_type == "bert" or model_type in TWO_LAYERS


def head_parameters(pool: PoolChoice, model_type: str, width: int, outputs: int) -> int:
    """Numbers of the head that are always trained (BERT's pooler belongs to the encoder)."""
    dense = width * width + width if pool == "own" and model_type in TWO_LAYERS else 0
    return dense + width * outputs + outputs
