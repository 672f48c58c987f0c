"""Positions of the queries and which keys they may attend to: handed to every mixer beside the vectors.

A key's index is its position; queries stand at ``position_ids_BT``. The causal mask (a query sees the keys up to its own
position) then also hides the unused part of a KV cache, whatever each row's length. Further masks: padding, a window, a
prefix that everyone sees, and several documents in one row. With it travel the memory of a source and the parts' own losses.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import final

import torch
from torch import Tensor

from glassformer.foundation.errors import UsageError
from glassformer.model.attention import causal_mask
from glassformer.model.dropout import DropoutMasks


@dataclass(frozen=True, eq=False)
class Memory:
    """The encoder's vectors [B, S, D]. ``padding_BS``: True at padding, None where there is none.

    ``stored``: by layer, the keys and values that cross-attention made of the vectors, where they are stored for further passes
    (``keep``).
    """

    vectors_BSD: Tensor
    padding_BS: Tensor | None = None
    keep: bool = False
    stored: dict[int, tuple[Tensor, Tensor]] = field(default_factory=dict)

    @property
    def rows(self) -> int:
        return len(self.vectors_BSD)

    def for_rows(self, rows: int) -> Memory:
        """The same for ``rows`` rows of targets: one source for all of them, or each for as many neighbours (beams)."""
        if rows == self.rows:
            return self

        def repeated(tensor: Tensor) -> Tensor:
            return tensor.expand(rows, *tensor.shape[1:]) if self.rows == 1 else tensor.repeat_interleave(rows // self.rows, 0)

        stored = {layer: (repeated(keys), repeated(values)) for layer, (keys, values) in self.stored.items()}
        padding_BS = None if self.padding_BS is None else repeated(self.padding_BS)
        return replace(self, vectors_BSD=repeated(self.vectors_BSD), padding_BS=padding_BS, stored=stored)


@final
class OwnLosses:
    """The weighted sums of one pass, by name; those of all layers together."""

    def __init__(self) -> None:
        self.sums: dict[str, Tensor] = {}

    def add(self, name: str, sum_of_tokens: Tensor) -> None:
        self.sums[name] = self.sums[name] + sum_of_tokens if name in self.sums else sum_of_tokens


@dataclass(frozen=True, eq=False)
class LentKeys:
    """The keys and values of a layer, for every head, and what may be seen of them."""

    k_BHSE: Tensor
    v_BHSE: Tensor
    visible: AttentionContext


@dataclass(frozen=True, eq=False)
class AttentionContext:
    """One forward pass as the mixers see it. ``position_ids_BT`` None: whole rows, the queries are the keys."""

    causal: bool
    position_ids_BT: Tensor | None = None
    key_padding_mask_BS: Tensor | None = None
    document_ids_BS: Tensor | None = None
    """The document of every key: a query sees those of its own document alone."""
    prefix_lengths_B: Tensor | None = None
    """So many keys at the beginning of each row are seen by every query, later ones by later queries (prefix LM). Where a
    prefix is read token by token from a cache, its first tokens cannot see its last."""
    window: int | None = None
    """How many keys a query sees at most: its own position and those just before it (in an encoder: on either side)."""
    dropout_masks: DropoutMasks | None = None
    """Where the blocks' dropout takes its masks from; None: torch's generator. Dropout inside attention always uses that."""

    memory: Memory | None = None
    """What an encoder made of the sources, for a decoder's cross-attention."""
    own_losses: OwnLosses | None = None
    """Where parts add losses of their own in training; None: nothing is collected."""

    key_position_ids_BS: Tensor | None = None
    """Where each key stands, -1 where there is none; None: key 0 at position 0, key 1 at position 1, ..."""
    num_positions: int = 0
    """Where ``key_position_ids_BS`` is given: how far any of them reaches."""
    ids_BT: Tensor | None = None
    """The new tokens themselves."""
    lent: dict[str, LentKeys] | None = None
    """Where a layer leaves its keys and values for later ones; None: no layer borrows."""

    values: Callable[[Tensor], Tensor] | None = None
    """What the stack makes of this layer's values; None: nothing."""

    def with_values(self, v_BHSE: Tensor) -> Tensor:
        """A layer's new values as the stack wants them, before they are cached."""
        return v_BHSE if self.values is None else self.values(v_BHSE)

    def lend_keys(self, k_BHSE: Tensor, v_BHSE: Tensor, visible: AttentionContext) -> None:
        """Leaves a layer's keys and values, with what its queries may see of them, to the layers after it."""
        if self.lent is not None:
            self.lent["keys"] = LentKeys(k_BHSE, v_BHSE, visible)

    @property
    def borrowed_keys(self) -> LentKeys:
        """Those of the nearest layer that left any."""
        assert self.lent is not None  # ModelConfig demands a lender
        return self.lent["keys"]

    def bias_of_keys(
        self, bias: Callable[[Tensor, int], Tensor | None], position_ids_BT: Tensor, num_keys: int
    ) -> Tensor | None:
        """What positions add to the scores, of the keys that there are. ``bias``: ``Positions.bias``."""
        at_BS = self.key_position_ids_BS
        if at_BS is None:
            return bias(position_ids_BT, num_keys)
        of_all_BHTP = bias(position_ids_BT, self.num_positions)
        if of_all_BHTP is None:
            return None
        of_all_BHTP = of_all_BHTP.expand(len(at_BS), -1, -1, -1)
        at_BS = at_BS.clamp(0, self.num_positions - 1)  # the others are hidden
        return of_all_BHTP.gather(3, at_BS[:, None, None].expand(-1, *of_all_BHTP.shape[1:3], -1))

    def add_loss(self, name: str, sum_of_tokens: Tensor, *, weight: float) -> None:
        """Adds a part's own loss, summed over the tokens that are no padding."""
        if self.own_losses is not None:
            self.own_losses.add(name, weight * sum_of_tokens)

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
        extra = (self.position_ids_BT, self.key_padding_mask_BS, self.document_ids_BS, self.prefix_lengths_B, self.window)
        return all(each is None for each in extra)

    @property
    def backwards(self) -> AttentionContext:
        """The same for a recurrence, which reads token after token, in an encoder too: its first cannot see a whole prefix."""
        if self.prefix_lengths_B is not None:
            raise UsageError(
                "A recurrence (gated_delta, mamba2) reads one token after another and cannot show a prefix to its own first "
                "tokens; leave prefix_lengths_B out, or choose a mixer with scores, such as dot.",
                reason="no-prefix",
            )
        return replace(self, causal=True)

    def within(self, window: int | None) -> AttentionContext:
        """The same, with only the nearest ``window`` keys visible to each query; None: all."""
        return self if window is None else replace(self, window=window)

    def without_keys(self, masked_S: Tensor | None) -> AttentionContext:
        """The same, with the keys where ``masked_S`` is True hidden from every query of every row; None hides nothing."""
        if masked_S is None:
            return self
        padding_BS = self.key_padding_mask_BS
        masked_BS = masked_S[None] if padding_BS is None else padding_BS | masked_S[: padding_BS.shape[1]]
        return replace(self, key_padding_mask_BS=masked_BS)

    def without_padding(self, x_BHSE: Tensor) -> Tensor:
        """Numbers of every key, with zeros at padding."""
        if self.key_padding_mask_BS is None:
            return x_BHSE
        return x_BHSE.masked_fill(self.key_padding_mask_BS[:, None, : x_BHSE.shape[2], None], 0.0)

    def query_position_ids(self, length: int, device: torch.device) -> Tensor:
        """The position of each query, [B, T] or [1, T]."""
        return torch.arange(length, device=device).unsqueeze(0) if self.position_ids_BT is None else self.position_ids_BT

    def attention_mask(self, num_queries: int, num_keys: int, device: torch.device) -> Tensor | None:
        """bool, True where a query may attend, broadcastable to [B, H, T, S]; None when every query sees every key."""
        masks_BTS: list[Tensor] = []
        position_ids_BT, at_BS = self.query_position_ids(num_queries, device), self.key_position_ids_BS
        key_BS = torch.arange(num_keys, device=device).unsqueeze(0) if at_BS is None else at_BS
        if self.causal:
            causal_BTS = (
                causal_mask(position_ids_BT, num_keys) if at_BS is None else at_BS[:, None] <= position_ids_BT[..., None]
            )
            if self.prefix_lengths_B is not None:
                causal_BTS = causal_BTS | (key_BS[:, None] < self.prefix_lengths_B[:, None, None])
            masks_BTS.append(causal_BTS)
        if self.window is not None:
            masks_BTS.append((position_ids_BT.unsqueeze(-1) - key_BS.unsqueeze(1)).abs() < self.window)
        if self.document_ids_BS is not None:
            of_query_BT = self.document_ids_BS.gather(1, position_ids_BT.expand(len(self.document_ids_BS), -1))
            masks_BTS.append(of_query_BT.unsqueeze(-1) == self._of_keys(self.document_ids_BS, num_keys).unsqueeze(1))
        if self.key_padding_mask_BS is not None:
            masks_BTS.append(~self._of_keys(self.key_padding_mask_BS, num_keys).unsqueeze(1))
        if at_BS is not None:
            masks_BTS.append((at_BS >= 0).unsqueeze(1))
        return functools.reduce(torch.logical_and, masks_BTS).unsqueeze(1) if masks_BTS else None

    def _of_keys(self, of_positions_BP: Tensor, num_keys: int) -> Tensor:
        at_BS = self.key_position_ids_BS
        if at_BS is None:
            return of_positions_BP[:, :num_keys]
        return of_positions_BP.expand(len(at_BS), -1).gather(1, at_BS.clamp(min=0))
