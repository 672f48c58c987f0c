"""Dropout: numbers are zeroed in training, by torch's generator or, in compiled steps, by masks computed from a seed.

When compiled, torch's dropout generates a Philox number per element, in the forward and again in the backward pass. On an H200
this, not memory bandwidth, limits the fused residual sum and norm. ``DropoutMasks`` computes an equivalent mask from one random
number a step by a few multiplications, so the backward pass recomputes it almost for free.
"""

from __future__ import annotations

from typing import final

import torch
import torch.nn.functional as F
from torch import Tensor, nn

LARGEST = 1 << 31
"""Elements that 32 bits can tell apart."""
_GOLDEN, _FIRST, _SECOND = 0x9E3779B9 - (1 << 32), 0x7FEB352D, 0x846CA68B - (1 << 32)  # 32 bits with a sign


@final
class DropoutMasks:
    """Masks of one forward pass, from one number: the n-th mask depends on that number and n alone."""

    def __init__(self, seed: Tensor) -> None:
        self.seed = seed.to(torch.int32)
        self.drawn = 0

    def keep_mask(self, like: Tensor, share: float) -> Tensor:
        """bool, shaped as ``like``: True with probability 1 - ``share``, in steps of 2^-24."""
        self.drawn += 1
        start = _scrambled(self.seed ^ _wrapped(self.drawn * _GOLDEN))
        stride = _scrambled(start ^ _GOLDEN) | 1  # odd: no two elements meet
        indices = torch.arange(like.numel(), dtype=torch.int32, device=like.device).view(like.shape)
        bits = _scrambled(indices * stride + start) & 0xFFFFFF
        return bits >= round(share * (1 << 24))


@final
class Dropout(nn.Module):
    """Zeroes a share ``p`` of the numbers in training and scales up the rest."""

    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = p

    def forward(self, x: Tensor, masks: DropoutMasks | None = None) -> Tensor:
        if not self.training or self.p == 0.0:
            return x
        if masks is None or x.numel() >= LARGEST:
            return F.dropout(x, self.p)
        return torch.where(masks.keep_mask(x, self.p), x / (1.0 - self.p), 0.0)

    def extra_repr(self) -> str:
        return f"p={self.p}"


def _wrapped(number: int) -> int:
    """As 32 bits with a sign hold it."""
    return (number + (1 << 31)) % (1 << 32) - (1 << 31)


def _scrambled(bits: Tensor) -> Tensor:
    """A 32-bit hash: every input bit turns every output bit over with probability near one half (lowbias32, Wellons 2018)."""
    bits = (bits ^ ((bits >> 16) & 0xFFFF)) * _FIRST
    bits = (bits ^ ((bits >> 15) & 0x1FFFF)) * _SECOND
    return bits ^ ((bits >> 16) & 0xFFFF)
