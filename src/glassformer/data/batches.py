"""tokens -> batches: which windows come at step n depends only on (seed, n).

Takes one long array of token ids; returns (inputs, targets) windows, the targets shifted by one. An epoch tiles the text with
windows from a random offset and visits each once, in a computed pseudo-random order, so that a resumed run continues with the
same batches without any stored state. Does not tokenize.
"""

from __future__ import annotations

from typing import Protocol, final

import numpy as np
import torch
from torch import Tensor

from glassformer.foundation.errors import DataError
from glassformer.foundation.files import release_pages
from glassformer.foundation.seeds import derive_seed, mixed_bits

SHUFFLE_ROUNDS = 24  # enough for a swap-or-not shuffle of any corpus that fits on a disk (Hoang et al. 2012)

LARGE_FILE = 256 << 20  # for larger token files, pages that a batch has read are released

LARGEST_ON_DEVICE = 4 << 30  # up to this many bytes, all tokens are moved to the device


@final
class Batch:
    """Named tensors whose first axis is the row. Next-token has ``ids`` and ``targets``; targets of -100 count for nothing."""

    __slots__ = ("tensors",)

    def __init__(self, **tensors: Tensor) -> None:
        self.tensors = tensors

    def __getitem__(self, name: str) -> Tensor:
        return self.tensors[name]

    @property
    def rows(self) -> int:
        return len(next(iter(self.tensors.values())))

    @property
    def numel(self) -> int:
        """Tokens that are read, padding included: those of ``ids`` and ``source_ids``; of the first tensor without them."""
        read = [tensor.numel() for name, tensor in self.tensors.items() if name in ("ids", "source_ids")]
        return sum(read) or next(iter(self.tensors.values())).numel()

    @property
    def shapes(self) -> tuple[tuple[str, torch.Size], ...]:
        """Names and shapes; a CUDA graph is captured for each combination."""
        return tuple((name, tensor.shape) for name, tensor in self.tensors.items())

    def to(self, device: torch.device) -> Batch:
        return Batch(**{name: tensor.to(device) for name, tensor in self.tensors.items()})

    def split(self, rows: int) -> list[Batch]:
        """Micro-batches of ``rows`` rows."""
        pieces = zip(*(tensor.split(rows) for tensor in self.tensors.values()))
        return [Batch(**dict(zip(self.tensors, piece))) for piece in pieces]

    def clone(self) -> Batch:
        return Batch(**{name: tensor.clone() for name, tensor in self.tensors.items()})

    def copy_(self, other: Batch) -> None:
        """Copies the values of ``other``, which has the same names and shapes."""
        for name, tensor in self.tensors.items():
            tensor.copy_(other[name])


class BatchesByStep(Protocol):
    """Batches that depend on (seed, step) alone."""

    @property
    def steps_per_epoch(self) -> float: ...

    def on(self, device: torch.device) -> BatchesByStep:
        """The same batches made on ``device`` where that is faster; otherwise these."""

    def batch(self, step: int) -> Batch:
        """The batch of step ``step``, counted from 0."""


@final
class WindowBatches:
    """Batches of windows over one array of tokens, by step number."""

    def __init__(self, tokens_N: np.ndarray, *, context: int, batch_size: int, seed: int) -> None:
        if len(tokens_N) < context + 1:
            raise DataError(
                f"The training text has {len(tokens_N)} tokens, but model.context={context} needs at least {context + 1}; "
                "give more text or a smaller context.",
                reason="text-too-short",
            )
        self.tokens_N, self.context, self.batch_size, self.seed = tokens_N, context, batch_size, seed
        self.windows = max(1, (len(tokens_N) - context) // context)
        self.spare = len(tokens_N) - 1 - self.windows * context

    @property
    def steps_per_epoch(self) -> float:
        return self.windows / self.batch_size

    def starts(self, first_step: int, steps: int = 1) -> np.ndarray:
        """Where the windows of some steps begin, int64 [steps, batch_size]."""
        served = np.arange(first_step * self.batch_size, (first_step + steps) * self.batch_size)
        epochs, places = np.divmod(served, self.windows)
        starts = np.empty_like(served)
        for epoch in np.unique(epochs):
            chosen = epochs == epoch
            seed = derive_seed(self.seed, "epoch", int(epoch))
            offset = seed % (self.spare + 1)
            starts[chosen] = offset + self.context * shuffled(places[chosen], self.windows, seed)
        return starts.reshape(steps, self.batch_size)

    def on(self, device: torch.device) -> WindowBatches | DeviceBatches:
        """The same batches made on ``device``, where the tokens fit beside a model; otherwise these."""
        fits = 4 * len(self.tokens_N) <= LARGEST_ON_DEVICE
        return DeviceBatches(self, device) if device.type != "cpu" and fits else self

    def batch(self, step: int) -> Batch:
        """The batch of step ``step`` (counted from 0), on the CPU."""
        at = self.starts(step)[0][:, None] + np.arange(self.context + 1)
        windows = torch.from_numpy(self.tokens_N[at].astype(np.int64))
        if self.tokens_N.nbytes > LARGE_FILE:
            release_pages(self.tokens_N)
        return Batch(ids=windows[:, :-1].contiguous(), targets=windows[:, 1:].contiguous())


@final
class DeviceBatches:
    """The same batches, gathered on the device: tokens are moved there once, then only the starts of windows."""

    AHEAD = 256  # steps whose starts are computed and sent together

    def __init__(self, windows: WindowBatches, device: torch.device) -> None:
        self.windows = windows
        self.tokens_N = torch.from_numpy(windows.tokens_N.astype(np.int32)).to(device)
        self.offsets_T = torch.arange(windows.context + 1, device=device)
        self._first, self._starts = -1, torch.empty(0)

    @property
    def steps_per_epoch(self) -> float:
        return self.windows.steps_per_epoch

    def on(self, device: torch.device) -> DeviceBatches:
        return self

    def batch(self, step: int) -> Batch:
        first = step - step % self.AHEAD
        if first != self._first:
            starts = torch.from_numpy(self.windows.starts(first, self.AHEAD))
            self._first, self._starts = first, starts.to(self.tokens_N.device)
        windows_BT = self.tokens_N[self._starts[step - first].unsqueeze(1) + self.offsets_T].long()
        return Batch(ids=windows_BT[:, :-1], targets=windows_BT[:, 1:])


def shuffled(places: np.ndarray, size: int, seed: int) -> np.ndarray:
    """A permutation of 0 .. size-1, evaluated at ``places`` only: the swap-or-not shuffle.

    Each round pairs every index with its reflection about a random point and swaps the pair or not, by one hashed bit.
    """
    places = places.astype(np.uint64)
    for turn in range(SHUFFLE_ROUNDS):
        key = derive_seed(seed, "round", turn)
        mirrored = (np.uint64(key % size) + np.uint64(size) - places) % np.uint64(size)
        swap = mixed_bits(np.maximum(places, mirrored) + np.uint64(key)) & np.uint64(1)
        places = np.where(swap.astype(bool), mirrored, places)
    return places.astype(np.int64)
