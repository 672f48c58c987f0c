"""Earlier vectors of the same row, for feed-forwards that mix along time: with a cache, padding and documents."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from glassformer.model.attention_context import AttentionContext
from glassformer.model.kv_cache import KVCache


def earlier(x_BTD: Tensor, count: int, attention_context: AttentionContext, cache: KVCache | None) -> list[Tensor]:
    """The vectors 1, 2, ... ``count`` positions before each token, [B, T, D]: zeros before the row's beginning, at padding
    and in another document."""
    length, read_with_cache = x_BTD.shape[1], cache is not None and attention_context.position_ids_BT is not None
    every_BSD = x_BTD if cache is None else cache.extend("input", x_BTD.unsqueeze(1)).squeeze(1)
    if not read_with_cache and attention_context.key_padding_mask_BS is None and attention_context.document_ids_BS is None:
        return [F.pad(x_BTD, (0, 0, steps, 0))[:, :length] for steps in range(1, count + 1)]
    batch = len(x_BTD)
    if read_with_cache:
        at_BT = attention_context.query_position_ids(length, x_BTD.device).expand(batch, -1)
    else:
        at_BT = torch.arange(length, device=x_BTD.device).expand(batch, -1)
    found = []
    for steps in range(1, count + 1):
        from_BT = (at_BT - steps).clamp(min=0)
        hidden_BT = at_BT < steps
        if attention_context.key_padding_mask_BS is not None:
            hidden_BT = hidden_BT | attention_context.key_padding_mask_BS.expand(batch, -1).gather(1, from_BT)
        if attention_context.document_ids_BS is not None:
            document_ids_BS = attention_context.document_ids_BS.expand(batch, -1)
            hidden_BT = hidden_BT | (document_ids_BS.gather(1, from_BT) != document_ids_BS.gather(1, at_BT))
        moved_BTD = every_BSD.gather(1, from_BT.unsqueeze(-1).expand(-1, -1, x_BTD.shape[-1]))
        found.append(moved_BTD.masked_fill(hidden_BT.unsqueeze(-1), 0.0))
    return found
