"""Ctrl-C, SIGTERM and SIGHUP as a request to stop: finish the step, save, then end. A second Ctrl-C ends at once."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import Any, Self


class StopRequested(Exception):
    """Raised between two batches of an evaluation, or while data are read, when the user wants to stop."""


SIGNALS = tuple(
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)
)  # Windows has no SIGHUP


class StopSignal:
    """While this context is open, the first such signal is remembered instead of ending the process.

    One that is ignored already (``nohup``) stays ignored.
    """

    def __init__(self) -> None:
        self.number: int | None = None
        self._at_once = False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():  # Python only lets the main thread set handlers
            for number in SIGNALS:
                if signal.getsignal(number) is not signal.SIG_IGN:
                    self._before[number] = signal.signal(number, self._note)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        outer = getattr(self._before.get(self.number or 0), "__self__", None)
        if kind is None and isinstance(outer, StopSignal):  # a parent's training ended before it could stop: its child does
            outer.number = self.number

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self.number is not None and number == signal.SIGINT:
            raise KeyboardInterrupt
        self.number = number
        if self._at_once:
            raise StopRequested

    @contextmanager
    def at_once(self) -> Iterator[None]:
        """Inside, a signal raises ``StopRequested`` where the program stands: for work that leaves nothing half done."""
        self.check()
        self._at_once = True
        try:
            yield
        finally:
            self._at_once = False

    @property
    def requested(self) -> bool:
        return self.number is not None

    def share(self, number: int) -> None:
        """Another process of the run was told to stop: so is this one."""
        if number and self.number is None:
            self.number = number

    def check(self) -> None:
        """Raises ``StopRequested`` if a stop was requested."""
        if self.requested:
            raise StopRequested
