"""The KV cache: what mixers store of the tokens they have read, so that the next token costs one step.

Every mixer makes the cache of its own layer (``Mixer.new_cache``): keys and values here, or whatever a mixer of another kind
stores. Rows of different length live in one batch: each writes at its own positions, and what stands beyond a row's end is
hidden by the causal mask until it is overwritten. The buffers keep their shape; what ``extend`` returns ends where the
longest row ends.
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


@final
class KVCache(LayerCache):
    """One buffer per name ("key", "value"), [rows, H, capacity, E], made when the first vectors come."""

    rewinds: ClassVar[bool] = True

    def __init__(self, placement: CachePlacement) -> None:
        self._placement = placement
        self._buffers: dict[str, Tensor] = {}

    def extend(self, name: str, new_BHTE: Tensor) -> Tensor:
        """Stores the new vectors and returns those of all positions so far, [B, H, S, E]."""
        placement = self._placement
        if placement.position_ids_BT is None:  # whole rows: the new vectors are all there is
            self._buffer(name, new_BHTE)[placement.whole_rows, :, : new_BHTE.shape[2]] = new_BHTE
            return new_BHTE
        buffer_BHSE = self.rows_of(name, new_BHTE)
        buffer_BHSE.scatter_(2, placement.position_ids_BT[:, None, :, None].expand_as(new_BHTE), new_BHTE)
        return buffer_BHSE[:, :, : placement.length]

    def rows_of(self, name: str, like_BHTE: Tensor) -> Tensor:
        """The buffer of as many rows as the given vectors have, [B, H, capacity, E]; whoever has it may write into it."""
        return self._buffer(name, like_BHTE)[: len(like_BHTE)]

    def _buffer(self, name: str, like_BHTE: Tensor) -> Tensor:
        if name not in self._buffers:
            batch, heads, _, width = like_BHTE.shape
            rows = self._placement.rows or batch
            self._buffers[name] = like_BHTE.new_zeros(rows, heads, self._placement.capacity, width)
        return self._buffers[name]

    def clear(self) -> None:
        for buffer in self._buffers.values():
            buffer.zero_()

    def move_rows(self, to_N: Tensor, from_N: Tensor) -> None:
        for buffer in self._buffers.values():
            buffer[to_N] = buffer[from_N]


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
