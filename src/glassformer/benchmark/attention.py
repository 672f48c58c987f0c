"""Time and memory of every mixer against length on this machine, and the exponent with which they grow.

One forward and backward pass of a mixer alone, for one text. Times are the best of several; memory is the most bytes that
tensors take at once (on a GPU what the allocator counted), weights not included. A formula stands beside each: the
FLOPs the variant's config states, which are those of its reference implementation.
"""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from glassformer.benchmark.machine import describe
from glassformer.foundation.errors import UsageError
from glassformer.foundation.progress import SILENT, Watcher
from glassformer.foundation.runtime import choose_runtime
from glassformer.model.attention_context import AttentionContext
from glassformer.model.dims import Dims
from glassformer.model.slots import MIXERS, MixerConfig, Positions

LENGTHS = (64, 128, 256, 512, 1024, 2048)


@dataclass(frozen=True)
class Growth:
    """``exponent`` of the power of the length that fits the figures, with its standard error from ``n`` lengths."""

    exponent: float
    error: float | None
    n: int

    def to_dict(self) -> dict[str, Any]:
        return {"exponent": self.exponent, "error": self.error, "n": self.n}


@dataclass(frozen=True)
class MixerCost:
    """One mixer: seconds, bytes and FLOPs (forward and backward) at each length."""

    name: str
    lengths: tuple[int, ...]
    seconds: tuple[float, ...]
    bytes: tuple[int, ...]
    flops: tuple[int, ...]

    @property
    def time_growth(self) -> Growth:
        return growth(self.lengths, self.seconds)

    @property
    def memory_growth(self) -> Growth:
        return growth(self.lengths, self.bytes)

    @property
    def formula_growth(self) -> Growth:
        return growth(self.lengths, self.flops)

    def to_dict(self) -> dict[str, Any]:
        return {
            "mixer": self.name,
            "lengths": list(self.lengths),
            "seconds": list(self.seconds),
            "bytes": list(self.bytes),
            "flops": list(self.flops),
            "time": self.time_growth.to_dict(),
            "memory": self.memory_growth.to_dict(),
            "formula": self.formula_growth.to_dict(),
        }


def growth(lengths: Sequence[int], figures: Sequence[float]) -> Growth:
    """The slope of log figure over log length in the longer half of the lengths, where fixed costs no longer show."""
    keep = max(3, (len(lengths) + 1) // 2)
    pairs = [(length, figure) for length, figure in zip(lengths, figures) if figure > 0][-keep:]
    if len(pairs) < 2:
        return Growth(0.0, None, len(pairs))
    x, y = np.log(np.array(pairs, dtype=np.float64)).T
    slope = float(((x - x.mean()) * (y - y.mean())).sum() / ((x - x.mean()) ** 2).sum())
    if len(pairs) < 3:
        return Growth(slope, None, len(pairs))
    rest = y - y.mean() - slope * (x - x.mean())
    error = float(np.sqrt((rest**2).sum() / (len(pairs) - 2) / ((x - x.mean()) ** 2).sum()))
    return Growth(slope, error, len(pairs))


def measure_mixers(
    *,
    names: Sequence[str] | None = None,
    lengths: Sequence[int] = LENGTHS,
    width: int = 128,
    heads: int = 4,
    repeats: int = 5,
    device: torch.device | None = None,
    watch: Watcher = SILENT,
) -> list[MixerCost]:
    """Every mixer with every example of its settings, or only those named."""
    if width % heads or min(lengths, default=0) < 1 or list(lengths) != sorted(set(lengths)):
        raise UsageError(f"lengths must rise from 1 or more and heads={heads} must divide width={width}; got {list(lengths)}.")
    configs = [config for name in names or MIXERS.names() for config in _examples(name)]
    found = []
    for number, (name, config) in enumerate(configs, start=1):
        points = [_point(config, length, width, heads, repeats, device or torch.device("cpu")) for length in lengths]
        seconds, memory, flops = zip(*points)
        found.append(MixerCost(name, tuple(lengths), seconds, memory, flops))
        watch.progress("mixers", number, len(configs), {"last": name})
    return found


def bench_attention(
    *,
    names: Sequence[str] | None = None,
    lengths: Sequence[int] = LENGTHS,
    width: int = 128,
    heads: int = 4,
    repeats: int = 5,
    device: str = "cpu",
    watch: Watcher = SILENT,
) -> tuple[dict[str, Any], list[MixerCost]]:
    """The document of ``glassformer bench attention`` (the machine, the settings, every mixer), and the costs in it."""
    runtime = choose_runtime(device=device, precision="float32")
    costs = measure_mixers(
        names=names, lengths=lengths, width=width, heads=heads, repeats=repeats, device=runtime.device, watch=watch
    )
    settings = {"width": width, "heads": heads, "repeats": repeats, "lengths": list(lengths)}
    mixers = [cost.to_dict() for cost in costs]
    return {"benchmark": "attention", "machine": describe(runtime), "settings": settings, "mixers": mixers}, costs


def _examples(name: str) -> list[tuple[str, MixerConfig]]:
    cls = MIXERS.get(name)
    labels = [",".join(f"{key}={str(value).lower()}" for key, value in settings.items()) for settings in cls.examples]
    return [
        (f"{name}({label})" if label else name, cls.parse(settings, at="model.mixer"))
        for label, settings in zip(labels, cls.examples)
    ]


def _point(
    config: MixerConfig, length: int, width: int, heads: int, repeats: int, device: torch.device
) -> tuple[float, int, int]:
    """Seconds, bytes and FLOPs of one forward and backward pass."""
    dims = Dims(width=width, heads=heads, layers=1, context=length, vocabulary=2)
    mixer = config.build(dims)
    generator = torch.Generator().manual_seed(0)
    for tensor in (*mixer.parameters(), *mixer.buffers()):
        if tensor.is_floating_point():
            torch.nn.init.normal_(tensor, std=0.02, generator=generator)
    mixer = mixer.to(device).train()
    x_BTD = torch.randn(1, length, width, generator=generator).to(device).requires_grad_()
    attention_context, positions = AttentionContext(causal=True), Positions()

    def step() -> None:
        mixer.zero_grad(set_to_none=True)
        x_BTD.grad = None
        mixer(x_BTD, attention_context, positions, None).sum().backward()

    flops = config.flops(dims, 1, length) + config.backward_flops(dims, 1, length)
    return _seconds(step, repeats, device), _bytes(step, device), flops


def _seconds(step: Callable[[], None], repeats: int, device: torch.device) -> float:
    """The best of several passes, after one that is not counted."""
    step()
    times = []
    for _ in range(repeats):
        _wait(device)
        begun = time.perf_counter()
        step()
        _wait(device)
        times.append(time.perf_counter() - begun)
    return min(times)


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def _bytes(step: Callable[[], None], device: torch.device) -> int:
    """The most bytes that the tensors of one pass take at once."""
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
        before = torch.cuda.memory_allocated(device)
        step()
        return torch.cuda.max_memory_allocated(device) - before
    with _LiveBytes() as live:
        step()
    return live.peak


class _LiveBytes(TorchDispatchMode):
    """Counts the storages that operations inside the ``with`` make, and takes them off when they are freed."""

    def __init__(self) -> None:
        super().__init__()
        self.now, self.peak = 0, 0
        self._known: set[int] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        inputs = {value.untyped_storage()._cdata for value in args if isinstance(value, Tensor)}
        result = func(*args, **(kwargs or {}))
        for value in result if isinstance(result, tuple | list) else (result,):
            if isinstance(value, Tensor):
                self._count(value, inputs)
        return result

    def _count(self, tensor: Tensor, inputs: set[int]) -> None:
        storage = tensor.untyped_storage()
        key, size = storage._cdata, storage.nbytes()
        if key in self._known or key in inputs:
            return
        self._known.add(key)
        self.now += size
        self.peak = max(self.peak, self.now)
        weakref.finalize(storage, self._free, key, size)

    def _free(self, key: int, size: int) -> None:
        self._known.discard(key)
        self.now -= size
