"""A training step -> the operations in it for which the processor would wait for a GPU, found without one.

On a GPU such an operation costs the time of an empty queue, and a step that has one cannot be captured as a CUDA graph.
"""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from glassformer.data.batches import Batch
from glassformer.foundation.runtime import Runtime
from glassformer.training.step import TrainStep

READ_BACK = {"_local_scalar_dense", "equal", "nonzero", "masked_select", "bincount", "repeat_interleave"}
"""A number (``.item()``, ``if tensor``), or a shape that depends on numbers, comes back to the processor."""
UNIQUE = ("_unique", "unique_")
INDEXED = {"index", "index_put", "index_put_", "_index_put_impl_"}


class Waits(TorchDispatchMode):
    """Notes what would wait. Python values made into a tensor are copied to the device, which waits as well."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self.operations: set[str] = set()

    def __torch_dispatch__(self, operation: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = operation.overloadpacket.__name__
        self.operations.add(name)
        if name in READ_BACK or name.startswith(UNIQUE) or (name in INDEXED and _by_a_mask(args[1])):
            self.found.append(name)
        if name == "lift_fresh" and args[0].numel():
            self.found.append("a tensor of Python values")
        if name in ("_to_copy", "copy_") and _crosses(name, args, kwargs or {}):
            self.found.append("a copy to the device")
        return operation(*args, **(kwargs or {}))


def _by_a_mask(indices: Any) -> bool:
    return any(isinstance(index, Tensor) and index.dtype in (torch.bool, torch.uint8) for index in indices)


def _crosses(name: str, args: Any, kwargs: dict[str, Any]) -> bool:
    if name == "copy_":
        return bool(args[0].device != args[1].device and args[1].numel())
    there = kwargs.get("device")
    return there is not None and torch.device(there) != args[0].device and bool(args[0].numel())


def noted(step: TrainStep, batch: Batch) -> Waits:
    """What a whole step (forward, backward, clipping, optimizer) does on the CPU, as it is when it is captured."""
    step.optimizers.make_capturable()
    step(batch, 0, 1.0)  # the first step makes the optimizer's memory
    step.prepare(1, 1.0)
    with Waits() as waits:
        step.update(batch)
    return waits


def copies_of(step: TrainStep, batch: Batch) -> list[str]:
    """What forward and backward pass copy to the device they run on: torch's meta device stands for the GPU.

    Only for networks that ask nothing of autocast, which does not know that device.
    """
    there = copy.copy(step)
    there.loss_module = copy.deepcopy(step.loss_module).to("meta")
    there.runtime = there.loss_module.runtime = Runtime(torch.device("meta"), "float32", 1)
    there.compute_loss = there.loss_module
    moved = batch.to(torch.device("meta"))
    with Waits() as waits:
        there._backward(moved, there.loss_module.count(moved))
    return waits.found
