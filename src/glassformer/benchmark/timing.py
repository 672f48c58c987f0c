"""Rates of several programs measured in turns, and the ratios between them.

A machine is rarely quiet, so single times mean little. All programs run in every round, one after the other, and two are
compared within each round; the spread over the rounds is shown.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from glassformer.foundation.progress import SILENT, Watcher

Program = Callable[[], float]
"""Does some work and gives its amount (tokens, operations, bytes)."""
Meter = Callable[[], float]
"""Does some work and gives its rate: amount per second."""


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
        wait_for(device)
        began = time.perf_counter()
        amount = program()
        wait_for(device)
        return amount / (time.perf_counter() - began)

    return meter


def wait_for(device: torch.device) -> None:
    """Until the device has done all it was given."""
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
