"""Several trials in one process, each in a thread: one at a time works on the processor while the others wait for the GPU.

A thread that takes turns holds the process's one lock, so nothing in the program needs to be safe for threads. It gives the
lock away only where it waits for kernels that it has launched (``meanwhile``). Kernels of different threads are on different
streams and run side by side. Imports no torch.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

_LOCK = threading.Lock()
_OF_THREAD = threading.local()


@contextmanager
def turn() -> Iterator[None]:
    """Inside, this thread is the one that works."""
    with _LOCK:
        _OF_THREAD.working = True
        try:
            yield
        finally:
            _OF_THREAD.working = False


def takes_turns() -> bool:
    """Whether this thread shares its process with others that train."""
    return getattr(_OF_THREAD, "working", False)


@contextmanager
def meanwhile() -> Iterator[None]:
    """Inside, the others may work. For a thread that takes no turns: nothing."""
    if not takes_turns():
        yield
        return
    _LOCK.release()
    try:
        yield
    finally:
        _LOCK.acquire()
