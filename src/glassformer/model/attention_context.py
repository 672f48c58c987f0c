"""Positions of the queries and which keys they may attend to: handed to every mixer beside the vectors.

A key's index is its position; queries stand at ``position_ids_BT``. The causal mask (a query sees the keys up to its own
position) then also hides the unused part of a KV cache, whatever each row's length.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from glassformer.foundation.errors import UsageError
from glassformer.model.attention import causal_mask
from glassformer.model.dropout import DropoutMasks
from glassformer.model.memory import Memory


@dataclass(frozen=True, eq=False)
class AttentionContext:
    """One forward pass as the mixers see it. ``position_ids_BT`` None: whole rows, the queries are the keys."""

    causal: bool
    position_ids_BT: Tensor | None = None
    key_padding_mask_BS: Tensor | None = None
    dropout_masks: DropoutMasks | None = None
    """Where the blocks' dropout takes its masks from; None: torch's generator. Dropout inside attention always uses that."""

    memory: Memory | None = None
    """What an encoder made of the sources, for a decoder's cross-attention."""

    @property
    def required_memory(self) -> Memory:
        """The memory; refused where none was given."""
        if self.memory is None:
            raise UsageError(
                "This decoder attends to a source, and none was given; call network.given(memory), or features(ids, "
                "memory=network.encode(source_ids)).",
                reason="no-source",
            )
        return self.memory

    @property
    def has_no_extra_mask(self) -> bool:
        """Whole rows with nothing further hidden: the case that fused kernels know by themselves."""
        return self.position_ids_BT is None and self.key_padding_mask_BS is None

    def without_keys(self, masked_S: Tensor | None) -> AttentionContext:
        """The same, with the keys where ``masked_S`` is True hidden from every query of every row; None hides nothing."""
        if masked_S is None:
            return self
        padding_BS = self.key_padding_mask_BS
        masked_BS = masked_S[None] if padding_BS is None else padding_BS | masked_S[: padding_BS.shape[1]]
        return replace(self, key_padding_mask_BS=masked_BS)

    def query_position_ids(self, length: int, device: torch.device) -> Tensor:
        """The position of each query, [B, T] or [1, T]."""
        return torch.arange(length, device=device).unsqueeze(0) if self.position_ids_BT is None else self.position_ids_BT

    def attention_mask(self, num_queries: int, num_keys: int, device: torch.device) -> Tensor | None:
        """bool, True where a query may attend, broadcastable to [B, H, T, S]; None when every query sees every key."""
        mask_BTS: Tensor | None = None
        if self.causal:
            mask_BTS = causal_mask(self.query_position_ids(num_queries, device), num_keys)
        if self.key_padding_mask_BS is not None:
            kept_B1S = ~self.key_padding_mask_BS[:, None, :num_keys]
            mask_BTS = kept_B1S if mask_BTS is None else mask_BTS & kept_B1S
        return None if mask_BTS is None else mask_BTS.unsqueeze(1)
