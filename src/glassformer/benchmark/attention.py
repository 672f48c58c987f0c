"""Time and memory of every mixer against length on this machine, and the exponent with which they grow.

One forward and backward pass of a mixer alone, for one text. Times are the best of several; memory is the most bytes that
tensors take at once (on a GPU what the allocator counted), weights not included. A formula stands beside each: the
FLOPs the variant's config states, which are those of its reference implementation.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor

from glassformer.benchmark.measure import describe, synchronize
from glassformer.foundation.errors import UsageError
from glassformer.foundation.progress import SILENT, Watcher
from glassformer.foundation.runtime import choose_runtime
from glassformer.model.attention_context import AttentionContext
from glassformer.model.dims import Dims
from glassformer.model.slots import MIXERS, MixerConfig, Positions
from glassformer.training.peak_memory import LiveBytes

LENGTHS = (64, 128, 256, 512, 1024, 2048)


def growth(lengths: Sequence[int], figures: Sequence[float]) -> dict[str, Any]:
    """The exponent of the power of the length that fits the figures, with its standard error, over ``n`` lengths.

    It is the slope of log figure over log length in the longer half of the lengths, where fixed costs no longer show.
    """
    longest = max(3, (len(lengths) + 1) // 2)
    pairs = [(length, figure) for length, figure in zip(lengths, figures) if figure > 0][-longest:]
    if len(pairs) < 2:
        return {"exponent": 0.0, "error": None, "n": len(pairs)}
    x, y = np.log(np.array(pairs, dtype=np.float64)).T
    x, y = x - x.mean(), y - y.mean()
    slope = float((x * y).sum() / (x**2).sum())
    error = float(np.sqrt(((y - slope * x) ** 2).sum() / (len(pairs) - 2) / (x**2).sum())) if len(pairs) > 2 else None
    return {"exponent": slope, "error": error, "n": len(pairs)}


def benchmark_attention(
    *,
    names: Sequence[str] | None = None,
    lengths: Sequence[int] = LENGTHS,
    width: int = 128,
    heads: int = 4,
    repeats: int = 5,
    device: str = "cpu",
    watch: Watcher = SILENT,
) -> dict[str, Any]:
    """The document of ``glassformer bench attention``: every mixer, or those named, with the examples of its settings.

    Examples that the number of heads excludes are left out, and ``skipped`` has a sentence for each. Each mixer has its
    seconds, bytes and FLOPs (forward and backward) at each length, and the growth of each.
    """
    if width % heads or min(lengths, default=0) < 1 or list(lengths) != sorted(set(lengths)):
        raise UsageError(
            f"lengths={list(lengths)} must be 1 or more and in rising order, and heads={heads} must divide width={width}.",
            reason="bad-lengths-or-heads",
        )
    runtime = choose_runtime(device=device, precision="float32")
    dims = Dims(width=width, heads=heads, layers=1, context=max(lengths), vocabulary=2)
    every = [example for name in names or MIXERS.names() for example in _examples(name)]
    reasons = {label: config.incompatibility(dims) for label, config in every}
    fitting = [(label, config) for label, config in every if reasons[label] is None]
    mixers = []
    for number, (label, config) in enumerate(fitting, start=1):
        points = [_point(config, replace(dims, context=length), repeats, runtime.device) for length in lengths]
        seconds, sizes, flops = (list(column) for column in zip(*points))
        mixer: dict[str, Any] = {"mixer": label, "lengths": list(lengths), "seconds": seconds, "bytes": sizes, "flops": flops}
        for kind, figures in (("time", seconds), ("memory", sizes), ("formula", flops)):
            mixer[kind] = growth(lengths, figures)
        mixers.append(mixer)
        watch.progress("mixers", number, len(fitting), {"last": label})
    return {
        "benchmark": "attention",
        "machine": describe(runtime),
        "settings": {"width": width, "heads": heads, "repeats": repeats, "lengths": list(lengths)},
        "mixers": mixers,
        "skipped": [f"{label} is left out: {reason}" for label, reason in reasons.items() if reason is not None],
    }


def _examples(name: str) -> list[tuple[str, MixerConfig]]:
    """Each example of a mixer's settings with a label such as ``grouped(fused=false)``."""
    cls, found = MIXERS.get(name), []
    for settings in cls.examples:
        label = ",".join(f"{key}={str(value).lower()}" for key, value in settings.items())
        found.append((f"{name}({label})" if label else name, cls.parse(settings, at="model.mixer")))
    return found


def _point(config: MixerConfig, dims: Dims, repeats: int, device: torch.device) -> tuple[float, int, int]:
    """Seconds (the best of several passes), bytes and FLOPs of one forward and backward pass over the whole context."""
    length, mixer = dims.context, config.build(dims)
    generator = torch.Generator().manual_seed(0)
    for tensor in (*mixer.parameters(), *mixer.buffers()):
        if tensor.is_floating_point():
            torch.nn.init.normal_(tensor, std=0.02, generator=generator)
    mixer = mixer.to(device).train()
    x_BTD = torch.randn(1, length, dims.width, generator=generator).to(device).requires_grad_()
    ids_BT = torch.zeros(1, length, dtype=torch.long, device=device)
    attention_context, positions = AttentionContext(causal=True, ids_BT=ids_BT, lent={}), Positions()
    if config.borrows_keys:  # of any layer: they are not part of its cost
        shared_BHSE = torch.randn(1, dims.heads, length, dims.head_width, generator=generator).to(device)
        attention_context.lend_keys(shared_BHSE, shared_BHSE, attention_context)

    def step() -> None:
        mixer.zero_grad(set_to_none=True)
        x_BTD.grad = None
        mixer(x_BTD, attention_context, positions, None).sum().backward()

    step()  # not counted: loads kernels
    synchronize(device)
    begun = [time.perf_counter()]
    for _ in range(repeats):
        step()
        synchronize(device)
        begun.append(time.perf_counter())
    seconds = min(after - before for before, after in pairwise(begun))
    there = [*mixer.parameters(), *mixer.buffers(), x_BTD, ids_BT]
    return seconds, _bytes(step, device, there), config.flops(dims, 1, length) + config.backward_flops(dims, 1, length)


def _bytes(step: Callable[[], None], device: torch.device, there: Sequence[Tensor] = ()) -> int:
    """The most bytes that the tensors of one pass take at once, beside those that are ``there`` before it."""
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
        before = torch.cuda.memory_allocated(device)
        step()
        return torch.cuda.max_memory_allocated(device) - before
    live = LiveBytes(block=1)
    live.add(there)
    before = live.live
    with live:
        step()
    return live.peak - before
