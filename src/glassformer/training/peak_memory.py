"""How much memory a training step takes at its peak: before anything is computed, and of a real step.

Every storage is counted from its allocation until it is freed, so whatever a variant stores is counted, in the precision and
on the device of the run. Before a run the step is taken on fake tensors, which have shapes and types but no numbers; in a run
a few steps are measured while they are taken, with the same bits (``measured``).
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from random import SystemRandom
from secrets import randbelow
from typing import Any

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode  # private, but what torch's own memory planning uses
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import flop_registry

from glassformer.data.batches import Batch
from glassformer.training.cuda_graph import GraphedStep
from glassformer.training.step import TrainStep

BLOCK = 512
"""torch's CUDA allocator rounds every size up to a multiple of this."""
WATCHED = 8
"""Steps of a run that are watched."""


class LiveBytes(TorchDispatchMode):
    """Inside the ``with``: the bytes of all storages that are alive, the most there were at once, and the FLOPs of matrix
    products. ``add`` counts what is there before.

    torch's FlopCounterMode has the same table of FLOPs, but computes some functions (the gradient of SiLU) in smaller ones,
    which gives other bits; here every function is called as it would be without the count.
    """

    def __init__(self, block: int = BLOCK) -> None:
        super().__init__()
        self.live = self.peak = self.flops = 0
        self.block = block
        self._known: set[int] = set()

    def add(self, tensors: Iterable[Tensor]) -> None:
        for tensor in tensors:
            storage = tensor.untyped_storage()
            address = storage._cdata
            if address in self._known:
                continue
            size = -(-storage.nbytes() // self.block) * self.block
            self._known.add(address)
            self.live += size
            self.peak = max(self.peak, self.live)
            weakref.finalize(storage, self._freed, address, size)

    def _freed(self, address: int, size: int) -> None:
        self._known.discard(address)
        self.live -= size

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        if (count := flop_registry.get(func._overloadpacket)) is not None:
            self.flops += count(*args, **kwargs, out_val=result)
        self.add(leaf for leaf in tree_leaves(result) if isinstance(leaf, Tensor))
        return result


def to_fake(network: nn.Module, mode: FakeTensorMode, device: torch.device) -> None:
    """Replaces every parameter and buffer by a fake one on ``device``; shared ones stay shared."""
    made: dict[int, Tensor] = {}
    for module in network.modules():
        for tensors in (module._parameters, module._buffers):
            for name, tensor in tensors.items():
                if tensor is None:
                    continue
                if id(tensor) not in made:
                    with mode:
                        fake = torch.empty(tensor.shape, dtype=tensor.dtype, device=device)
                    is_weight = isinstance(tensor, nn.Parameter)
                    made[id(tensor)] = nn.Parameter(fake, requires_grad=tensor.requires_grad) if is_weight else fake
                tensors[name] = made[id(tensor)]  # type: ignore[assignment]


def peak_bytes(step: TrainStep, batch: Batch, mode: FakeTensorMode, *, captured: bool = False) -> int:
    """Of any step after the first, whose network is fake (``to_fake``): the gradients are computed while the optimizer's state
    is already there. ``captured``: as a CUDA graph."""
    device = step.runtime.device
    network = step.loss_module.network
    with mode:
        shapes = {name: (tensor.shape, tensor.dtype) for name, tensor in batch.tensors.items()}
        fake = Batch(**{name: torch.empty(shape, dtype=dtype, device=device) for name, (shape, dtype) in shapes.items()})
        count = LiveBytes()
        count.add([*network.parameters(), *network.buffers(), *fake.tensors.values()])
        before = count.live
        with count:
            step.prepare(0, 1.0)
            loss = step.gradients(fake)
            of_gradients, count.peak = count.peak, count.live
            step.apply(loss)
    state = count.live - before
    return max(of_gradients + state, count.peak) + workspace_bytes(device, streams=2 if captured else 1)


def workspace_bytes(device: torch.device, streams: int) -> int:
    """What matrix products keep on a GPU: for each stream one workspace of this thread and one of the thread that computes
    gradients, as large as CUBLAS_WORKSPACE_CONFIG says (pairs of KiB and a count, ":4096:8")."""
    if device.type != "cuda":
        return 0
    sizes = [int(number) for number in os.environ["CUBLAS_WORKSPACE_CONFIG"].split(":") if number]
    return 2 * streams * 1024 * sum(size * count for size, count in zip(sizes[::2], sizes[1::2]))


def measured_steps(steps: int) -> frozenset[int]:
    """The steps of a run that are measured: the second (the optimizer has its state), one of the second half, the last. Which
    one, nobody can foresee."""
    half = steps // 2
    return frozenset({min(1, steps - 1), half + randbelow(steps - half), steps - 1})


def watched_steps(steps: int) -> frozenset[int]:
    """Steps of a run that nobody can foresee, of which is noted whether anything but the optimizer changes the weights."""
    return frozenset(SystemRandom().sample(range(steps), min(WATCHED, steps)))


@dataclass
class Taken:
    """What one step took; None: not known."""

    peak_bytes: int | None = None
    flops: int | None = None
    """Of matrix products, as torch counts them."""


@contextmanager
def measured(step: TrainStep | GraphedStep, batch: Batch) -> Iterator[Taken]:
    """Inside, one step is taken; afterwards it is known. On CUDA the memory is the allocator's own figure, for a replayed step
    that of its capture. A compiled step without a GPU tells nothing."""
    plain, taken = step.uncaptured, Taken()
    as_written = isinstance(step, TrainStep) and not step.compiled and step.shards is None
    if plain.runtime.device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(plain.runtime.device)
    if not as_written:
        yield taken
    else:
        network = plain.loss_module.network
        with LiveBytes() as live:
            live.add([*network.parameters(), *network.buffers(), *plain.optimizers.tensors().values(), *batch.tensors.values()])
            yield taken
        taken.peak_bytes, taken.flops = live.peak, live.flops
    if plain.runtime.device.type == "cuda":
        replayed = step.peak_bytes if isinstance(step, GraphedStep) else 0
        taken.peak_bytes = max(replayed, torch.cuda.max_memory_allocated(plain.runtime.device))
