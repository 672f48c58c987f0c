"""What a model remembers of the tokens it has read, so that the next token costs one step (the key/value cache).

One buffer per layer and name, filled at each row's own positions: rows of different length live in one batch, and what
stands beyond a row's end is hidden by the causal rule until it is overwritten. A mixer decides what it keeps (keys and
values, or values alone). Shapes never depend on how far a row has come, so a step can be recorded and replayed.
"""

from __future__ import annotations

from collections.abc import Callable
from weakref import ref

import torch
from torch import Tensor


class KVCache:
    """The buffers of one layer. ``extend`` writes where the owner was told and gives all that the queries may need."""

    def __init__(self, owner: ModelCache) -> None:
        self._weak_owner = ref(owner)  # weak: a ring of large buffers would be freed late
        self._buffers: dict[str, Tensor] = {}

    def extend(self, name: str, new_BHTE: Tensor) -> Tensor:
        """Stores the new vectors and returns those of all positions so far, [B, H, S, E]."""
        owner = self._owner
        if owner.position_ids_BT is None:  # whole rows: the new vectors are all there is
            buffer_BHSE, rows, length = self._buffer(name, new_BHTE), owner.whole_rows, new_BHTE.shape[2]
            if isinstance(rows, slice):
                owner.copy(buffer_BHSE[rows, :, :length], new_BHTE)
            else:
                buffer_BHSE[rows, :, :length] = new_BHTE
            return new_BHTE
        buffer_BHSE = self.rows_of(name, new_BHTE)
        buffer_BHSE.scatter_(2, owner.position_ids_BT[:, None, :, None].expand_as(new_BHTE), new_BHTE)
        return buffer_BHSE[:, :, : owner.length]

    def rows_of(self, name: str, like_BHTE: Tensor) -> Tensor:
        """The cache of as many rows as the given vectors have, [B, H, capacity, E], for whoever writes into it himself."""
        return self._buffer(name, like_BHTE)[: len(like_BHTE)]

    @property
    def _owner(self) -> ModelCache:
        owner = self._weak_owner()
        assert owner is not None
        return owner

    def _buffer(self, name: str, like_BHTE: Tensor) -> Tensor:
        if name not in self._buffers:
            batch, heads, _, width = like_BHTE.shape
            owner = self._owner
            self._buffers[name] = like_BHTE.new_zeros(owner.rows or batch, heads, owner.capacity, width)
        return self._buffers[name]

    def clear(self) -> None:
        for buffer in self._buffers.values():
            buffer.zero_()

    def move_rows(self, to_N: Tensor, from_N: Tensor) -> None:
        for buffer in self._buffers.values():
            buffer[to_N] = buffer[from_N]


class ModelCache:
    """The cache of one model for a batch of up to ``rows`` rows (those of the first pass, unless told)."""

    def __init__(self, *, layers: int, capacity: int, rows: int | None = None) -> None:
        self.capacity, self.rows = capacity, rows
        self.length = 0
        self.position_ids_BT: Tensor | None = None
        self.whole_rows: Tensor | slice = slice(0)
        self.copy: Callable[[Tensor, Tensor], object] = Tensor.copy_  # a faster one may be put here
        self.layers = [KVCache(self) for _ in range(layers)]

    def place(self, position_ids_BT: Tensor, length: int) -> None:
        """Before a pass over the first rows: where the new tokens stand, and how far any row reaches after them."""
        self.position_ids_BT, self.length = position_ids_BT, length

    def place_whole(self, rows: Tensor | slice) -> None:
        """Before a pass that reads these rows from their beginning; what they held is forgotten."""
        self.position_ids_BT, self.whole_rows = None, rows

    def clear(self) -> None:
        """Forgets everything; the buffers stay where they are."""
        for layer in self.layers:
            layer.clear()

    def keep_rows(self, rows_B: Tensor) -> None:
        """Row ``rows_B[i]`` becomes row i; every row not named leaves. Only rows that change place are copied."""
        to_N = torch.arange(len(rows_B), device=rows_B.device)
        to_N = to_N[to_N != rows_B]  # waits for the device, so it is asked once for all layers
        from_N = rows_B[to_N]
        for layer in self.layers:
            layer.move_rows(to_N, from_N)
