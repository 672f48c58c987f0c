"""The mathematics of attention as functions: queries, keys, values -> scores -> pattern -> weighted mean of the values.

``attend`` is all of it; attention by hand calls it. The mixers call the same functions one by one, so that scores and pattern
can be looked at (model/softmax_mixer.py). Shapes: B batch, H heads, T queries, S keys, E head width; every function takes
any leading dimensions.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor


def attention_scores(q_HTE: Tensor, k_HSE: Tensor, *, scale: float | None = None) -> Tensor:
    """Dot products of every query with every key, times ``scale`` (1/sqrt(E) unless told, Vaswani et al. 2017)."""
    factor = 1.0 / math.sqrt(q_HTE.shape[-1]) if scale is None else scale
    return (q_HTE * factor) @ k_HSE.transpose(-1, -2)


def causal_mask(position_ids: Tensor, num_keys: int) -> Tensor:
    """True where a query may attend: a query at position t sees the keys at 0 ... t."""
    return torch.arange(num_keys, device=position_ids.device) <= position_ids.unsqueeze(-1)


def attention_pattern(scores_HTS: Tensor, mask_HTS: Tensor | None = None) -> Tensor:
    """Softmax over the keys where the mask is True. A query that may see nothing gets zeros, not NaN."""
    if mask_HTS is None:
        return torch.softmax(scores_HTS, dim=-1)
    pattern_HTS = torch.softmax(scores_HTS.masked_fill(~mask_HTS, -torch.inf), dim=-1)
    return pattern_HTS.masked_fill(~mask_HTS.any(dim=-1, keepdim=True), 0.0)


def visible_keys(scores_HTS: Tensor, mask_HTS: Tensor | None) -> Tensor:
    """How many keys each query sees, at least 1; broadcastable to the scores, in their precision."""
    if mask_HTS is None:
        return scores_HTS.new_tensor(scores_HTS.shape[-1])
    return mask_HTS.sum(dim=-1, keepdim=True).clamp(min=1).to(scores_HTS.dtype)


def attend(
    q_HTE: Tensor, k_HSE: Tensor, v_HSE: Tensor, mask_HTS: Tensor | None = None, *, scale: float | None = None
) -> Tensor:
    """Each query's mean of the visible values, weighted by the pattern."""
    return attention_pattern(attention_scores(q_HTE, k_HSE, scale=scale), mask_HTS) @ v_HSE


def split_heads(x_BTD: Tensor, heads: int) -> Tensor:
    """[B, T, H * E] -> [B, H, T, E]: head h reads the h-th stretch of each vector."""
    return x_BTD.unflatten(-1, (heads, -1)).transpose(1, 2)
