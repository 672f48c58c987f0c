"""The KV cache: what mixers store of the tokens they have read, so that the next token costs one step.

Every mixer makes the cache of its own layer (``Mixer.new_cache``): all keys and values, those of a window in a ring, the state
of a recurrence, or whatever a mixer of another kind stores. Rows of different length live in one batch: each writes at its own
positions, and what stands beyond a row's end is hidden by the causal mask until it is overwritten. Buffers keep their shape;
what ``extend`` returns ends where the longest row ends.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar, final

import torch
from torch import Tensor, nn


@final
class CachePlacement:
    """Which rows and positions the next pass writes; one for the caches of all layers."""

    def __init__(self, *, capacity: int, rows: int | None = None) -> None:
        self.capacity, self.rows = capacity, rows  # rows None: as many as the first pass has
        self.position_ids_BT: Tensor | None = None  # None: whole rows from their beginning
        self.whole_rows: Tensor | slice = slice(0)  # which ones those are
        self.length = 0  # how far any row reaches after the pass


class LayerCache(ABC):
    """What the mixer of one layer stores."""

    rewinds: ClassVar[bool] = False
    """Whether a row can go back to an earlier position without reading anew, and may be read with padding at its end."""

    @abstractmethod
    def clear(self) -> None:
        """Resets everything in place."""

    @abstractmethod
    def move_rows(self, to_N: Tensor, from_N: Tensor) -> None:
        """Row ``from_N[i]`` is copied to row ``to_N[i]``."""


class RowBuffers(LayerCache):
    """Tensors by name whose first axis is the rows, made when they are first written."""

    empty: ClassVar[dict[str, int]] = {}
    """What a tensor is filled with before it is written, where that is not zero."""

    def __init__(self, placement: CachePlacement) -> None:
        self._placement = placement
        self._buffers: dict[str, Tensor] = {}

    def _buffer(self, name: str, like: Tensor, *sizes: int) -> Tensor:
        """The tensor of this name, of numbers like the given ones; ``sizes``: of all axes but the rows."""
        if name not in self._buffers:
            self._buffers[name] = like.new_full((self._placement.rows or len(like), *sizes), self.empty.get(name, 0))
        return self._buffers[name]

    def clear(self) -> None:
        for name, buffer in self._buffers.items():
            buffer.fill_(self.empty.get(name, 0))

    def move_rows(self, to_N: Tensor, from_N: Tensor) -> None:
        for buffer in self._buffers.values():
            buffer[to_N] = buffer[from_N]


@final
class KVCache(RowBuffers):
    """One buffer per name ("key", "value"), [rows, H, capacity, E]."""

    rewinds: ClassVar[bool] = True

    def extend(self, name: str, new_BHTE: Tensor) -> Tensor:
        """Stores the new vectors and returns those of all positions so far, [B, H, S, E]."""
        placement = self._placement
        if placement.position_ids_BT is None:  # whole rows: the new vectors are all there is
            self._whole(name, new_BHTE)[placement.whole_rows, :, : new_BHTE.shape[2]] = new_BHTE
            return new_BHTE
        buffer_BHSE = self.rows_of(name, new_BHTE)
        buffer_BHSE.scatter_(2, placement.position_ids_BT[:, None, :, None].expand_as(new_BHTE), new_BHTE)
        return buffer_BHSE[:, :, : placement.length]

    def rows_of(self, name: str, like_BHTE: Tensor) -> Tensor:
        """The buffer of as many rows as the given vectors have, [B, H, capacity, E]; whoever has it may write into it."""
        return self._whole(name, like_BHTE)[: len(like_BHTE)]

    def _whole(self, name: str, like_BHTE: Tensor) -> Tensor:
        return self._buffer(name, like_BHTE, like_BHTE.shape[1], self._placement.capacity, like_BHTE.shape[3])


@final
class RingCache(RowBuffers):
    """The keys and values of a window: position p stands in slot p modulo the window's length, over that of p - window."""

    empty: ClassVar[dict[str, int]] = {"position": -1}

    def __init__(self, placement: CachePlacement, window: int) -> None:
        super().__init__(placement)
        self.window = window

    @property
    def num_positions(self) -> int:
        """How far any row reaches."""
        return self._placement.length

    def extend(self, k_BHTE: Tensor, v_BHTE: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:
        """Stores the new keys and values; returns those that the new tokens may see, and the position of each key ([B, S];
        -1: there is none), or None where they are whole rows from their beginning."""
        placement, length = self._placement, k_BHTE.shape[2]
        at_BT = placement.position_ids_BT
        if at_BT is None:
            at_NT = torch.arange(length, device=k_BHTE.device).expand(len(k_BHTE), -1)
            rows = placement.whole_rows
            self._write(
                torch.arange(len(k_BHTE), device=k_BHTE.device)[rows] if isinstance(rows, slice) else rows,
                at_NT,
                k_BHTE,
                v_BHTE,
            )
            return k_BHTE, v_BHTE, None
        rows_B, at_BT = torch.arange(len(k_BHTE), device=k_BHTE.device), at_BT.expand(len(k_BHTE), -1)
        if length == 1:  # what it overwrites is outside the window
            self._write(rows_B, at_BT, k_BHTE, v_BHTE)
            return tuple(buffer[: len(k_BHTE)] for buffer in self._all(k_BHTE, v_BHTE))  # type: ignore[return-value]
        k_BHWE, v_BHWE, stored_BW = (buffer[: len(k_BHTE)] for buffer in self._all(k_BHTE, v_BHTE))
        stored_BW = stored_BW.masked_fill(stored_BW >= at_BT[:, :1], -1)  # of a longer text that was in this row
        seen = torch.cat([k_BHWE, k_BHTE], 2), torch.cat([v_BHWE, v_BHTE], 2), torch.cat([stored_BW, at_BT], 1)
        self._write(rows_B, at_BT, k_BHTE, v_BHTE)
        return seen

    def _all(self, k_BHTE: Tensor, v_BHTE: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        keys, values = (
            self._buffer(name, one, one.shape[1], self.window, one.shape[3])
            for name, one in (("key", k_BHTE), ("value", v_BHTE))
        )
        return keys, values, self._buffer("position", keys.new_empty(len(k_BHTE), dtype=torch.long), self.window)

    def _write(self, rows_N: Tensor, at_NT: Tensor, k_BHTE: Tensor, v_BHTE: Tensor) -> None:
        keys, values, positions = self._all(k_BHTE, v_BHTE)
        if self._placement.position_ids_BT is None:
            positions[rows_N] = -1
        at_NW, rows_N1 = at_NT[:, -self.window :], rows_N.unsqueeze(1)
        slot_NW = at_NW % self.window
        positions[rows_N1, slot_NW] = at_NW
        keys[rows_N1, :, slot_NW] = k_BHTE[:, :, -self.window :].transpose(1, 2)
        values[rows_N1, :, slot_NW] = v_BHTE[:, :, -self.window :].transpose(1, 2)


@final
class RecurrentCache(RowBuffers):
    """The state of a recurrence: as many numbers after a million tokens as after one."""

    @property
    def begins(self) -> bool:
        """Whether the next pass reads whole rows from their beginning."""
        return self._placement.position_ids_BT is None

    def read(self, name: str, like: Tensor, *sizes: int) -> Tensor:
        """The state of each row, [B, *sizes]; zeros where a row begins. ``like``: a tensor of as many rows."""
        position_ids_BT = self._placement.position_ids_BT
        if position_ids_BT is None:
            return like.new_zeros(len(like), *sizes)
        begins_B = (position_ids_BT[:, 0] == 0).view(-1, *(1 for _ in sizes))
        return self._buffer(name, like, *sizes)[: len(like)].masked_fill(begins_B, 0.0)

    def write(self, name: str, state: Tensor) -> None:
        rows = self._placement.whole_rows if self.begins else slice(len(state))
        self._buffer(name, state, *state.shape[1:])[rows] = state


@final
class PartCaches(LayerCache):
    """The caches of a layer in which several parts have one: its mixer, a feed-forward that reads earlier tokens."""

    def __init__(self, by_part: dict[nn.Module, LayerCache]) -> None:
        self.by_part = by_part

    @property
    def rewinds(self) -> bool:  # type: ignore[override]
        return all(cache.rewinds for cache in self.by_part.values())

    def clear(self) -> None:
        for cache in self.by_part.values():
            cache.clear()

    def move_rows(self, to_N: Tensor, from_N: Tensor) -> None:
        for cache in self.by_part.values():
            cache.move_rows(to_N, from_N)


def cache_of(cache: LayerCache | None, part: nn.Module) -> LayerCache | None:
    """A part's own cache among those of its layer."""
    return cache.by_part.get(part) if isinstance(cache, PartCaches) else cache


@final
class ModelCache:
    """The caches of all layers for one batch. ``Transformer.new_cache`` makes it."""

    def __init__(self, placement: CachePlacement, layers: Sequence[LayerCache], embedding: LayerCache | None = None) -> None:
        self.placement, self.layers, self.embedding = placement, list(layers), embedding
        self._all = [*self.layers, *([] if embedding is None else [embedding])]

    @property
    def rewinds(self) -> bool:
        return all(cache.rewinds for cache in self._all)

    def place(self, position_ids_BT: Tensor, length: int) -> None:
        """Before a pass over the first rows: the positions of the new tokens, and how far any row reaches after them."""
        self.placement.position_ids_BT, self.placement.length = position_ids_BT, length

    def place_whole(self, rows: Tensor | slice) -> None:
        """Before a pass that reads these rows from their beginning; what they stored before is dropped."""
        self.placement.position_ids_BT, self.placement.whole_rows = None, rows

    def clear(self) -> None:
        for cache in self._all:
            cache.clear()

    def keep_rows(self, rows_B: Tensor) -> None:
        """Row ``rows_B[i]`` becomes row i; every row not named leaves. Only rows that change place are copied."""
        to_N = torch.arange(len(rows_B), device=rows_B.device)
        to_N = to_N[to_N != rows_B]  # waits for the device, so it is asked once for all layers
        from_N = rows_B[to_N]
        for cache in self._all:
            cache.move_rows(to_N, from_N)
