"""What a model remembers of the tokens it has read, so that the next token costs one step (the key/value cache).

One buffer per layer and name, filled at each row's own positions: rows of different length live in one batch. A mixer
decides what it keeps (keys and values, or values alone).
"""

from __future__ import annotations

import torch
from torch import Tensor


class LayerMemory:
    """The buffers of one layer. ``extend`` writes at the scene's positions and gives everything up to ``length``."""

    def __init__(self, owner: Memory) -> None:
        self._owner = owner
        self._buffers: dict[str, Tensor] = {}

    def extend(self, name: str, new_BHTE: Tensor) -> Tensor:
        """Stores the new vectors and returns those of all positions so far, [B, H, S, E]."""
        owner, buffer = self._owner, self._buffers.get(name)
        batch, heads, _, width = new_BHTE.shape
        if buffer is None:
            buffer = new_BHTE.new_zeros(batch, heads, owner.capacity, width)
            self._buffers[name] = buffer
        rows_B1 = torch.arange(batch, device=new_BHTE.device).unsqueeze(1)
        buffer[rows_B1, :, owner.at_BT] = new_BHTE.transpose(1, 2)
        return buffer[:, :, : owner.length]

    def keep_rows(self, rows: Tensor) -> None:
        self._buffers = {name: buffer[rows] for name, buffer in self._buffers.items()}


class Memory:
    """The memory of one model for one batch of rows."""

    def __init__(self, *, layers: int, capacity: int) -> None:
        self.capacity = capacity
        self.length = 0
        self.at_BT: Tensor = torch.empty(0, dtype=torch.long)
        self.layers = [LayerMemory(self) for _ in range(layers)]

    def place(self, at_BT: Tensor, length: int) -> None:
        """Called once per forward pass: where the new tokens stand, and how far any row reaches after them."""
        self.at_BT, self.length = at_BT, length

    def keep_rows(self, rows: Tensor) -> None:
        """Drops every row not in ``rows``: finished texts leave the batch."""
        for layer in self.layers:
            layer.keep_rows(rows)
