"""A metrics file that grows -> curves by key, read once and then only at its end; thinned for a screen. Imports no torch.

Of every stretch of a long curve the lowest and the highest point are kept, so that no spike is lost by thinning.
"""

from __future__ import annotations

import json
import math
import threading
from array import array
from pathlib import Path
from typing import Any, final

import numpy as np
import numpy.typing as npt

from glassformer.runs.records import NOT_FINITE, OLD_KEYS

BLOCK = 4 << 20
"""Bytes that are read at once."""


@final
class Curves:
    """Every number of a run's records by key. ``update`` reads what was appended; a file that was rewritten is read anew.

    Several threads may read on and thin at once: an array cannot grow while it is being copied.
    """

    def __init__(self, file: Path) -> None:
        self.file = file
        self._lock = threading.Lock()
        self._forget()
        self.rewritten = 0

    def _forget(self) -> None:
        self._offset, self._inode, self._torn = 0, 0, b""
        self._steps: dict[str, array[float]] = {}
        self._values: dict[str, array[float]] = {}

    @property
    def keys(self) -> list[str]:
        with self._lock:
            return list(self._steps)

    def length(self, key: str) -> int:
        with self._lock:
            return len(self._steps.get(key, ()))

    def update(self) -> bool:
        """Reads on; whether there was anything new."""
        with self._lock:
            return self._read_on()

    def _read_on(self) -> bool:
        try:
            found = self.file.stat()
        except OSError:
            changed = self._offset > 0
            self._forget()
            self.rewritten += changed
            return changed
        if self._offset and (found.st_ino != self._inode or found.st_size < self._offset):
            self._forget()
            self.rewritten += 1
        self._inode = found.st_ino
        if found.st_size == self._offset:
            return False
        with self.file.open("rb") as stream:
            stream.seek(self._offset)
            while block := stream.read(BLOCK):
                self._offset += len(block)
                *lines, self._torn = (self._torn + block).split(b"\n")
                self._take(lines)
        return True

    def _take(self, lines: list[bytes]) -> None:
        try:
            records = json.loads(b"[" + b",".join(line for line in lines if line) + b"]")
        except ValueError:  # a torn line among them
            records = [_record(line) for line in lines]
        for record in records:
            step = record.get("step") if isinstance(record, dict) else None
            if not isinstance(step, int | float):
                continue
            for key, value in record.items():
                number = NOT_FINITE.get(value) if isinstance(value, str) else value
                if key == "step" or isinstance(number, bool) or not isinstance(number, int | float):
                    continue
                key = OLD_KEYS.get(key, key)
                if key not in self._steps:
                    self._steps[key], self._values[key] = array("d"), array("d")
                self._steps[key].append(step)
                self._values[key].append(number)

    def thinned(
        self, key: str, *, low: float | None = None, high: float | None = None, points: int = 1000, skip: int = 0
    ) -> dict[str, Any]:
        """``{"step", "value", "of"}``: about ``points`` points between two steps, and how many there are.

        ``skip``: leaves out the first points: those that were sent before. What is not a finite number is None.
        """
        with self._lock:
            steps, values = (np.array(kept.get(key, ()), float)[skip:] for kept in (self._steps, self._values))
        first = 0 if low is None else max(0, int(np.searchsorted(steps, low)) - 1)
        last = len(steps) if high is None else int(np.searchsorted(steps, high, side="right")) + 1
        steps, values = steps[first:last], values[first:last]
        kept = _kept(values, points)
        return {
            "step": [int(step) if step.is_integer() else step for step in steps[kept].tolist()],
            "value": [value if math.isfinite(value) else None for value in values[kept].tolist()],
            "of": len(steps),
        }


def _kept(values: npt.NDArray[np.float64], points: int) -> npt.NDArray[np.int64]:
    """Places of the points to show: the ends, and of each stretch the lowest and the highest, and one that is no number."""
    n = len(values)
    if n <= max(points, 2):
        return np.arange(n)
    stretches = max(1, points // 2)
    size = -(-n // stretches)
    padded = np.full(size * -(-n // size), np.nan)
    padded[:n] = values
    table = padded.reshape(-1, size)
    at = np.arange(len(table)) * size
    low = at + np.argmin(np.where(np.isfinite(table), table, np.inf), axis=1)
    high = at + np.argmax(np.where(np.isfinite(table), table, -np.inf), axis=1)
    odd = at + np.argmax(~np.isfinite(table), axis=1)
    odd = odd[(odd < n)]
    odd = odd[~np.isfinite(values[odd])]
    kept = np.unique(np.concatenate([[0, n - 1], low, high, odd]))
    return np.asarray(kept[kept < n], dtype=np.int64)


def _record(line: bytes) -> Any:
    try:
        return json.loads(line or b"{}")
    except ValueError:
        return {}
