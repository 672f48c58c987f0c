"""Phases of a piece of work -> seconds of each, on the wall and of the processor. Imports no torch.

Phases may nest: while an inner one runs, the outer one is paused, so that the seconds of all phases and ``other`` add up
to the whole. On a GPU, work is handed over and waited for later; the seconds are those the program spent in each phase.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, final

PHASES = ("imports", "data", "checks", "compile", "first step", "steps", "evaluations", "saving", "baselines")
"""What a training run spends its seconds on, in order. The first call of a compiled step counts as ``compile``."""
OTHER = "other"


@final
class Stopwatch:
    """Seconds by phase, from now on; ``from_process_start`` counts what came before as ``imports``."""

    def __init__(self, *, from_process_start: bool = False) -> None:
        self._started = self._lap = (time.perf_counter(), time.process_time())
        self._phase = OTHER
        self._spent: dict[str, tuple[float, float]] = {}
        if from_process_start:
            self._started = self._lap = (self._lap[0] - process_age(), 0.0)
            self._phase = "imports"
            self._turn(OTHER)

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """What happens inside belongs to ``name``."""
        before = self._turn(name)
        try:
            yield
        finally:
            self._turn(before)

    def _turn(self, name: str) -> str:
        """Adds the time since the last call to the present phase, and changes to ``name``; returns the phase before."""
        now, left = (time.perf_counter(), time.process_time()), self._phase
        wall, processor = self._spent.get(left, (0.0, 0.0))
        self._spent[left] = (wall + now[0] - self._lap[0], processor + now[1] - self._lap[1])
        self._lap, self._phase = now, name
        return left

    def to_dict(self) -> dict[str, Any]:
        """Seconds of every phase that took any, of what is left, and of all together."""
        self._turn(self._phase)
        names = [name for name in (*PHASES, *self._spent, OTHER) if name in self._spent]
        spent = {name: self._spent[name] for name in dict.fromkeys(names) if name != OTHER} | {OTHER: self._spent[OTHER]}
        columns = {kind: {name: round(pair[i], 4) for name, pair in spent.items()} for i, kind in enumerate(("seconds", "cpu"))}
        whole = [round(self._lap[i] - self._started[i], 4) for i in (0, 1)]
        return {"whole": {"seconds": whole[0], "cpu": whole[1]}, **columns}


def process_age() -> float:
    """Seconds since this process began; where the system does not say, its processor time."""
    try:
        with open("/proc/self/stat", encoding="utf-8") as stream:
            ticks = int(stream.read().rpartition(")")[2].split()[19])
        return max(0.0, time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK"))
    except (OSError, ValueError, IndexError, AttributeError):
        return time.process_time()
