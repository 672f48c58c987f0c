"""Scores and targets -> the sum of cross-entropies and how many targets there were.

Targets of ``IGNORED`` count for nothing. The sum, not the mean, leaves here, so that micro-batches of unequal size add up
to exactly the large batch. The head is applied in chunks of tokens: the full table of scores is never held at once.
"""

from __future__ import annotations

from typing import Protocol, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from glassformer.model.slots import LinearHead

IGNORED = -100


class HasFeatures(Protocol):
    """What a loss asks of a model."""

    head: nn.Module

    def features(self, ids_BT: Tensor) -> Tensor: ...


def summed_cross_entropy(logits_BTV: Tensor, targets_BT: Tensor, *, smoothing: float = 0.0) -> Tensor:
    """The definition: nats, summed over every target that counts, in float32 or better.

    ``smoothing``: the share of each target that is spread evenly over the vocabulary (Szegedy et al. 2016).
    """
    logits = logits_BTV.flatten(0, -2)
    return F.cross_entropy(
        logits.to(_accumulating(logits)),
        targets_BT.flatten(),
        ignore_index=IGNORED,
        reduction="sum",
        label_smoothing=smoothing,
    )


def chunked_cross_entropy(
    head: nn.Module, features_BTD: Tensor, targets_BT: Tensor, *, chunk: int, smoothing: float = 0.0, unit: int = 1
) -> Tensor:
    """The same from the vectors before the head; each chunk's scores are formed again in the backward pass."""
    features_ND, targets_N = features_BTD.flatten(0, -2), targets_BT.flatten()

    def part(piece_ND: Tensor, targets: Tensor) -> Tensor:
        return summed_cross_entropy(scores_for_loss(head, piece_ND, unit=unit), targets, smoothing=smoothing)

    total = features_ND.new_zeros((), dtype=_accumulating(features_ND))
    for piece_ND, targets in zip(features_ND.split(chunk), targets_N.split(chunk)):
        total = total + checkpoint(part, piece_ND, targets, use_reentrant=False)
    return total


def scores_for_loss(head: nn.Module, features_BTD: Tensor, *, unit: int) -> Tensor:
    """The head's scores with columns of minus infinity up to a multiple of ``unit``: they change no softmax.

    A GPU multiplies matrices of an odd width at little more than half speed (GPT-2's 50,257 columns).
    """
    missing = -head.weight.shape[0] % unit if isinstance(head, LinearHead) else 0
    if not missing:
        return cast(Tensor, head(features_BTD))
    assert isinstance(head, LinearHead)
    vocabulary = head.weight.shape[0]
    bias = None if head.bias is None else F.pad(head.bias, (0, missing))
    scores = F.linear(features_BTD, F.pad(head.weight, (0, 0, 0, missing)), bias)
    return scores.masked_fill(torch.arange(vocabulary + missing, device=scores.device) >= vocabulary, -torch.inf)


def _accumulating(tensor: Tensor) -> torch.dtype:
    return torch.float64 if tensor.dtype == torch.float64 else torch.float32
