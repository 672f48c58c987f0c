"""A step recorded once on a CUDA GPU and replayed many times: the processor says one word instead of a hundred.

The step must be made of device work alone, keep its state in tensors that live as long as the recording, and have
shapes that follow from its arguments. Plays no part on other devices.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import final
from weakref import WeakMethod

import torch
from torch import Tensor, nn

WARM_UP = 2
"""Plain runs before recording: libraries choose kernels and allocate their own memory in the first ones."""


def can_record(model: nn.Module) -> bool:
    """A hook is Python and would run only while recording, so a model that somebody looks into is run step by step."""
    hooked = any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())
    return next(model.parameters()).device.type == "cuda" and not hooked


@final
class Recorded:
    """``step(rows, length)`` by recordings, one for each pair of arguments. ``state``: all that a step changes."""

    def __init__(self, step: WeakMethod[Callable[[int, int], None]], state: Sequence[Tensor]) -> None:
        self._weak_step, self._state = step, state  # weak: the step's owner owns this, and a ring is freed late
        self._recordings: dict[tuple[int, int], torch.cuda.CUDAGraph] = {}
        self._pool = torch.cuda.graph_pool_handle()

    def __call__(self, rows: int, length: int) -> None:
        if (rows, length) not in self._recordings:
            self._recordings[rows, length] = self._record(rows, length)
        self._recordings[rows, length].replay()

    def _step(self, rows: int, length: int) -> None:
        step = self._weak_step()
        assert step is not None
        step(rows, length)

    def _record(self, rows: int, length: int) -> torch.cuda.CUDAGraph:
        before = [tensor.clone() for tensor in self._state]
        aside = torch.cuda.Stream()
        aside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(aside):
            for _ in range(WARM_UP):
                self._step(rows, length)
        torch.cuda.current_stream().wait_stream(aside)
        for tensor, value in zip(self._state, before):
            tensor.copy_(value)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self._pool):
            self._step(rows, length)
        return graph
