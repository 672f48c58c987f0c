"""Rates of several programs measured in turns, the ratios between them, and what the machine itself can do.

A machine is rarely quiet, so single times mean little. All programs run in every round, one after the other, and two are
compared within each round; the spread over the rounds is shown.
"""

from __future__ import annotations

import os
import platform
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from typing import Any

import torch

from glassformer.foundation.progress import SILENT, Watcher
from glassformer.foundation.runtime import Runtime, device_name

Program = Callable[[], float]
"""Does some work and returns its amount (tokens, operations, bytes)."""
Meter = Callable[[], float]
"""Does some work and returns its rate: amount per second."""

MATRIX_SIZE = {"cpu": 1536, "cuda": 8192}
"""Large enough to run at the full rate, small enough for a fraction of a second."""
MATRIX_REPEATS = {"cpu": 4, "cuda": 20}
MEMORY_BYTES = {"cpu": 256 << 20, "cuda": 4 << 30}
"""Much more than any cache."""


def measure(meters: Mapping[str, Meter], *, rounds: int, watch: Watcher = SILENT) -> dict[str, list[float]]:
    """The rate of every program in every round."""
    rates: dict[str, list[float]] = {name: [] for name in meters}
    for turn in range(rounds):
        for place, (name, meter) in enumerate(meters.items()):
            rates[name].append(meter())
            watch.progress("measuring", turn * len(meters) + place + 1, rounds * len(meters), {name: rates[name][-1]})
    return rates


def timed(program: Program, device: torch.device) -> Meter:
    """A program with a clock around it."""

    def meter() -> float:
        synchronize(device)
        began = time.perf_counter()
        amount = program()
        synchronize(device)
        return amount / (time.perf_counter() - began)

    return meter


def synchronize(device: torch.device) -> None:
    """Waits until the device has done all its work."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    elif device.type == "mps":
        torch.mps.synchronize()


def spread(values: Sequence[float]) -> dict[str, Any]:
    """The median of the rounds, the lowest and the highest of them, and how many there were."""
    return {"value": statistics.median(values), "low": min(values), "high": max(values), "n": len(values)}


def ratio(rates: Mapping[str, Sequence[float]], ours: str, other: str) -> dict[str, Any]:
    """How many times as fast ``ours`` is, round by round."""
    return spread([mine / theirs for mine, theirs in zip(rates[ours], rates[other])])


def compared(rates: Mapping[str, Sequence[float]], ours: str) -> dict[str, Any]:
    """Tokens/s of every program, and how many times as fast ours is."""
    return {
        "tokens_per_second": {name: spread(values) for name, values in rates.items()},
        "times_as_fast_as": {name: ratio(rates, ours, name) for name in rates if name != ours},
    }


def matrix_program(device: torch.device, precision: str) -> Program:
    """Square matrix products in the precision of a runtime; its rate is FLOP/s."""
    size, repeats = MATRIX_SIZE.get(device.type, 2048), MATRIX_REPEATS.get(device.type, 4)
    a, b = (torch.randn(size, size, device=device).to(dtype_of(precision)) for _ in range(2))
    result = torch.empty_like(a)

    def program() -> float:
        for _ in range(repeats):
            torch.mm(a, b, out=result)
        return repeats * 2.0 * size**3

    return program


def memory_program(device: torch.device) -> Program:
    """Sums a large array; its rate is bytes read per second."""
    numbers = torch.ones(MEMORY_BYTES.get(device.type, 256 << 20) // 4, device=device)

    def program() -> float:
        numbers.sum()
        return 4.0 * numbers.numel()

    return program


def dtype_of(precision: str) -> torch.dtype:
    return torch.bfloat16 if precision == "bf16" else torch.float32


def describe(runtime: Runtime) -> dict[str, Any]:
    """The machine and the versions, stored beside every figure."""
    return {
        "date": date.today().isoformat(),
        "device": device_name(runtime.device),
        "cores": os.cpu_count(),
        "threads": runtime.threads,
        "precision": runtime.precision,
        "torch": torch.__version__,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
    }
