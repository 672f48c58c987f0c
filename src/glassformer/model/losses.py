"""Scores and targets -> the sum of cross-entropies. What it is divided by is counted by the objective.

Targets of ``IGNORED`` add nothing. The sum, not the mean, leaves here, so that micro-batches of unequal size add up to the
large batch, up to rounding. Where the scores of all tokens are more than ``LARGEST_SCORE_TABLE`` numbers, the head is applied
to chunks of tokens, and the full table is never held at once.
"""

from __future__ import annotations

from typing import TypeGuard

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from glassformer.model import kernels
from glassformer.model.slots import LinearHead

if kernels.AVAILABLE:
    from glassformer.model.kernels.cross_entropy import cross_entropy

IGNORED = -100
COLUMNS_UNIT = 64
"""A GPU makes a table of scores fast whose width is a whole number of these; 50,257 columns take nearly twice as long."""


def summed_cross_entropy(logits_BTV: Tensor, targets_BT: Tensor, *, smoothing: float = 0.0) -> Tensor:
    """The reference implementation: nats, summed over every target that counts, in float32 or better.

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


def head_cross_entropy(head: nn.Module, features_BTD: Tensor, targets_BT: Tensor, *, smoothing: float = 0.0) -> Tensor:
    """The same from the vectors before the head, by a kernel of ours where it is faster."""
    if smoothing or not kernels.usable(features_BTD) or not is_one_product(head):
        return summed_cross_entropy(head(features_BTD), targets_BT, smoothing=smoothing)
    scores_NW = head.padded(features_BTD.flatten(0, -2), unit=COLUMNS_UNIT)
    return cross_entropy(scores_NW, targets_BT.flatten(), head.weight.shape[0]).sum()


LARGEST_SCORE_TABLE = {"cpu": 1 << 26, "cuda": 1 << 31}
"""Scores (tokens x vocabulary) held at once; a larger table is made in chunks."""


def token_cross_entropy(
    head: nn.Module, features_BTD: Tensor, targets_BT: Tensor, *, outputs: int, smoothing: float = 0.0
) -> Tensor:
    """The same, in chunks of tokens where the table of their ``outputs`` scores would be too large to hold."""
    room = LARGEST_SCORE_TABLE.get(features_BTD.device.type, 1 << 26) // outputs
    if targets_BT.numel() > room:
        return chunked_cross_entropy(head, features_BTD, targets_BT, chunk=max(1, room), smoothing=smoothing)
    return head_cross_entropy(head, features_BTD, targets_BT, smoothing=smoothing)


def is_one_product(head: nn.Module) -> TypeGuard[LinearHead]:
    """Whether nothing but the head's product makes its scores: no ``forward`` of its own, nobody who looks or changes."""
    hooked = bool(head._forward_hooks or head._forward_pre_hooks)
    return isinstance(head, LinearHead) and type(head).forward is LinearHead.forward and not hooked


def chunked_cross_entropy(
    head: nn.Module, features_BTD: Tensor, targets_BT: Tensor, *, chunk: int, smoothing: float = 0.0
) -> Tensor:
    """The same again; each chunk's scores are formed again in the backward pass."""
    features_ND, targets_N = features_BTD.flatten(0, -2), targets_BT.flatten()

    def part(piece_ND: Tensor, targets: Tensor) -> Tensor:
        return head_cross_entropy(head, piece_ND, targets, smoothing=smoothing)

    total = features_ND.new_zeros((), dtype=_accumulating(features_ND))
    for piece_ND, targets in zip(features_ND.split(chunk), targets_N.split(chunk)):
        total = total + checkpoint(part, piece_ND, targets, use_reentrant=False)
    return total


def _accumulating(tensor: Tensor) -> torch.dtype:
    return torch.float64 if tensor.dtype == torch.float64 else torch.float32
