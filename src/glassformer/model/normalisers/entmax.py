"""1.5-entmax: sparse attention weights, most of them exactly zero."""

from __future__ import annotations

import math
from typing import final

import torch
import torch.nn.functional as F
from torch import Tensor

from glassformer.model.dims import Dims
from glassformer.model.slots import NORMALISERS, Normaliser, NormaliserConfig


@NORMALISERS.variant("entmax")
@final
class EntmaxConfig(NormaliserConfig):
    """relu(s/2 - t)^2 with t such that the weights sum to 1: keys far from the best get exactly 0 (Correia et al. 2019).

    This is alpha-entmax with alpha = 1.5. t is found by Newton's steps, which need no sorting and no running sum (on a GPU
    neither has a deterministic kernel). Cost: some ten passes over the scores.
    """

    def build(self, dims: Dims) -> Entmax:
        return Entmax()


@final
class Entmax(Normaliser):
    def forward(self, scores_BHTS: Tensor, mask: Tensor | None) -> Tensor:
        if mask is not None:
            scores_BHTS = scores_BHTS.masked_fill(~mask, -torch.inf)
        pattern_BHTS = entmax15(scores_BHTS)
        return pattern_BHTS if mask is None else pattern_BHTS.masked_fill(~mask.any(dim=-1, keepdim=True), 0.0)


def entmax15(scores: Tensor) -> Tensor:
    """1.5-entmax over the last axis.

    The sum of relu(z - t)^2 is convex and falls with t, so Newton's steps from the left (t = max z - 1, where the sum is 1 at
    least) approach the root from there: halving the distance while many keys count, then squaring the error. The last step
    is differentiated, and as its slope is held fixed its gradient is that of the root itself.
    """
    z = (scores - scores.detach().amax(dim=-1, keepdim=True)) / 2  # the maximum cancels, so it needs no gradient
    z = z.to(torch.promote_types(z.dtype, torch.float32))
    with torch.no_grad():
        threshold = torch.full_like(z[..., :1], -1.0)
        for _ in range(8 + math.ceil(math.log2(scores.shape[-1] + 1) / 2)):
            threshold = _newton_step(z, threshold)
    return F.relu(z - _newton_step(z, threshold)).square().to(scores.dtype)


def _newton_step(z: Tensor, threshold: Tensor) -> Tensor:
    above = F.relu(z - threshold)
    return threshold + (above.square().sum(dim=-1, keepdim=True) - 1) / (2 * above.detach().sum(dim=-1, keepdim=True))
