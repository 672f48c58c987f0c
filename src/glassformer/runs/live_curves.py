"""A growing metrics file -> curves by key, read incrementally and downsampled for display. Imports no torch.

Downsampling keeps the minimum and the maximum of every interval, so that no spike is lost.
"""

from __future__ import annotations

import json
import math
import os
import threading
from array import array
from pathlib import Path
from typing import Any, BinaryIO, final

import numpy as np
import numpy.typing as npt

from glassformer.foundation.errors import RunError
from glassformer.foundation.files import LONGEST_LINE, MOST_LINES_BYTES, open_file
from glassformer.runs.records import NOT_FINITE, parse_record

DROPPED = b"..."
BLOCK = 4 << 20
"""Bytes that are read at once."""


@final
class Curves:
    """The values of a run's records by key. ``update`` reads appended lines; a rewritten file is read from the start.

    Thread-safe: an array cannot grow while it is being copied.
    """

    def __init__(self, file: Path) -> None:
        self.file = file
        self._lock = threading.Lock()
        self._reset()
        self.rewritten = 0

    def _reset(self) -> None:
        self._offset, self._inode, self._torn = 0, 0, b""
        self.damaged = 0
        """Lines that are no records, or longer than any."""
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
        """Reads appended lines; returns whether there were any."""
        with self._lock:
            try:
                stream = open_file(self.file)
            except OSError:
                changed = self._offset > 0
                self._reset()
                self.rewritten += changed
                return changed
            with stream:
                return self._read_on(stream)

    def _read_on(self, stream: BinaryIO) -> bool:
        found = os.fstat(stream.fileno())
        if found.st_size > MOST_LINES_BYTES:
            raise RunError(
                f"{self.file} has {found.st_size:,} bytes; at most {MOST_LINES_BYTES:,} are read.", reason="too-large"
            )
        if self._offset and (found.st_ino != self._inode or found.st_size < self._offset):
            self._reset()
            self.rewritten += 1
        self._inode = found.st_ino
        if found.st_size == self._offset:
            return False
        stream.seek(self._offset)
        while block := stream.read(BLOCK):
            self._offset += len(block)
            *lines, torn = (self._torn + block).split(b"\n")
            if len(torn) > LONGEST_LINE:  # no record: the rest of the line is dropped with it
                self.damaged += not torn.startswith(DROPPED)
                torn = DROPPED
            self._torn = torn
            self._append_records(lines)
        return True

    def _append_records(self, lines: list[bytes]) -> None:
        try:
            records = json.loads(b"[" + b",".join(line for line in lines if line) + b"]")
        except ValueError:  # including an incomplete line
            records = [parse_record(line) for line in lines]
            self.damaged += sum(line.endswith(b"}") and not record for line, record in zip(lines, records))
        for record in records:
            step = record.get("step") if isinstance(record, dict) else None
            if not isinstance(step, int | float):
                self.damaged += bool(record)
                continue
            for key, value in record.items():
                number = NOT_FINITE.get(value) if isinstance(value, str) else value
                if key == "step" or isinstance(number, bool) or not isinstance(number, int | float):
                    continue
                if key not in self._steps:
                    self._steps[key], self._values[key] = array("d"), array("d")
                self._steps[key].append(step)
                self._values[key].append(number)

    def thinned(
        self, key: str, *, low: float | None = None, high: float | None = None, points: int = 1000, skip: int = 0
    ) -> dict[str, Any]:
        """``{"step", "value", "of"}``: about ``points`` points between two steps, and the total number.

        ``skip``: leaves out the first points, which were sent before. Non-finite values are None.
        """
        with self._lock:
            steps, values = (np.array(one.get(key, ()), float)[skip:] for one in (self._steps, self._values))
        first = 0 if low is None else max(0, int(np.searchsorted(steps, low)) - 1)
        last = len(steps) if high is None else int(np.searchsorted(steps, high, side="right")) + 1
        steps, values = steps[first:last], values[first:last]
        shown = _downsampled(values, points)
        return {
            "step": [int(step) if step.is_integer() else step for step in steps[shown].tolist()],
            "value": [value if math.isfinite(value) else None for value in values[shown].tolist()],
            "of": len(steps),
        }


def _downsampled(values: npt.NDArray[np.float64], points: int) -> npt.NDArray[np.int64]:
    """Indices of the points to show: both ends and, of each interval, the minimum, the maximum and one that is NaN."""
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
    shown = np.unique(np.concatenate([[0, n - 1], low, high, odd]))
    return np.asarray(shown[shown < n], dtype=np.int64)
