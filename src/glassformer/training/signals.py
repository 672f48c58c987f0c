"""Ctrl-C and SIGTERM as a request to stop: finish the step, save, then end. A second Ctrl-C ends at once."""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType
from typing import Any, Self


class StopRequested(Exception):
    """Raised between two batches of an evaluation when the user wants to stop."""


class StopSignal:
    """While this context is open, the first SIGINT or SIGTERM is remembered instead of ending the process."""

    def __init__(self) -> None:
        self.number: int | None = None
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():  # Python only lets the main thread set handlers
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._note)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self.number is not None and number == signal.SIGINT:
            raise KeyboardInterrupt
        self.number = number

    @property
    def requested(self) -> bool:
        return self.number is not None

    def check(self) -> None:
        """Raises ``StopRequested`` once a stop was asked for."""
        if self.requested:
            raise StopRequested
