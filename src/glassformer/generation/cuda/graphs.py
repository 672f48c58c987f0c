"""Steps captured once as CUDA graphs and replayed many times: one launch by the host instead of a hundred.

A step must consist of device work alone, keep its state in tensors that live as long as the graph, and have shapes that
follow from its arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, final
from weakref import WeakMethod

import torch
from torch import Tensor, nn

from glassformer.generation.batch import modules_of

WARM_UP = 2
"""Eager runs before a capture: libraries choose kernels and allocate their own memory in the first ones."""


def can_capture(model: nn.Module) -> bool:
    """A hook is Python and would run only during the capture, so a model with hooks is run step by step."""
    hooked = any(module._forward_hooks or module._forward_pre_hooks for module in modules_of(model))
    return next(model.parameters()).device.type == "cuda" and not hooked


def capture(work: Callable[[], object], *, pool: Any = None) -> torch.cuda.CUDAGraph:
    """A CUDA graph of what ``work`` launches; nothing is executed meanwhile."""
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, pool=pool):
        work()
    return graph


@final
class CUDAGraphSteps:
    """Runs ``step(rows, length)`` by graphs of one step or of ``together`` steps, one graph for each pair of arguments.

    ``state``: all that a step changes. Between two replays the GPU idles for some microseconds, which several short steps in
    one graph save.
    """

    def __init__(self, step: WeakMethod[Callable[[int, int], None]], state: Sequence[Tensor], *, together: int = 1) -> None:
        self._weak_step, self._state = step, state  # weak: the step's owner owns this, and a ring is freed late
        self._together = together
        self._graphs: dict[tuple[int, int, int], torch.cuda.CUDAGraph] = {}
        self._pool = torch.cuda.graph_pool_handle()

    def __call__(self, rows: int, length: int, steps: int) -> None:
        while steps > 0:
            at_once = self._together if steps >= self._together else 1
            if (rows, length, at_once) not in self._graphs:
                self._graphs[rows, length, at_once] = self._capture(rows, length, at_once)
            self._graphs[rows, length, at_once].replay()
            steps -= at_once

    def _capture(self, rows: int, length: int, steps: int) -> torch.cuda.CUDAGraph:
        step = self._weak_step()
        assert step is not None
        before = [tensor.clone() for tensor in self._state]
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(WARM_UP):
                step(rows, length)
        torch.cuda.current_stream().wait_stream(side)
        for tensor, value in zip(self._state, before):
            tensor.copy_(value)
        return capture(lambda: [step(rows, length) for _ in range(steps)], pool=self._pool)
